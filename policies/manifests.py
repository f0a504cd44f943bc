"""Reads Kubernetes manifests and other nested property values for the rules; pure.

Paths are dotted, list indices included: `spec.template.spec.containers.0.env.2`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from runtime.credentials import is_credential_name

_CONTAINER_LISTS = frozenset({"containers", "initContainers", "ephemeralContainers"})
_STRUCTURE = _CONTAINER_LISTS | {"spec", "template", "env", "data"}
"""Keys under which a manifest may hide environment values."""


class _Unknown:
    """The type of UNKNOWN; equal to nothing else."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""Stands for a property value that the engine does not know yet."""


def pod_templates(
    value: object, *, where: tuple[str, ...] = ()
) -> Iterator[tuple[str, Mapping[str, Any]]]:  # Any: JSON values
    """Yield every pod template below a value, with its path and a closing dot."""
    for key, item in _items(value):
        spec = item.get("spec") if key == "template" and isinstance(item, Mapping) else None
        if isinstance(item, Mapping) and isinstance(spec, Mapping) and "containers" in spec:
            yield f"{'.'.join((*where, key))}.", item
        yield from pod_templates(item, where=(*where, key))


def literal_credentials(value: object, *, where: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the path and name of each literal environment value that looks like a credential."""
    for key, item in _items(value):
        path = (*where, key)
        if where[-1:] == ("env",) and isinstance(item, Mapping) and "value" in item:
            name = item.get("name")
            if not isinstance(name, str):
                yield f"{'.'.join(path)}: a name that is not known at preview"
            elif is_credential_name(name):
                yield f"{'.'.join(path)}: {name}"
        yield from literal_credentials(item, where=path)


def unreadable_parts(value: object, *, where: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the path of each unknown value under which environment values may hide."""
    for key, item in _items(value):
        is_entry = where[-1:] == ("env",) or not _CONTAINER_LISTS.isdisjoint(where[-1:])
        if item is UNKNOWN and (key in _STRUCTURE or is_entry):
            yield ".".join((*where, key))
        yield from unreadable_parts(item, where=(*where, key))


def _items(value: object) -> Iterator[tuple[str, Any]]:  # Any: JSON values
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(index), item) for index, item in enumerate(value))
