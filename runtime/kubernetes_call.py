"""Call: one request to the Kubernetes API as a value; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.kubernetes_errors import Asked
from runtime.kubernetes_kinds import Kind

FIELD_MANAGER = "paddock"
"""The manager of the fields that paddock itself writes, in the API's own book of owners."""

SILENCE_S = 15.0
_METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request; `is_safe` tells that it may be sent twice with the effect of once."""

    asked: Asked
    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_safe: bool = True
    silence_s: float | None = SILENCE_S
    """How long the server may say nothing; None: for ever, as a followed log may."""


def object_call(
    verb: str, kind: Kind, name: str = "", *, namespace: str = "", body: object = None
) -> Call:
    """Return the request of a verb (RBAC's word) on an object, or on the kind without a name."""
    method = _METHODS.get(verb, "GET")
    return Call(
        asked=Asked(verb=verb, resource=kind.resource, name=name, namespace=namespace),
        method=method,
        path=kind.path(namespace, name),
        params={"fieldManager": FIELD_MANAGER} if method in {"POST", "PUT", "PATCH"} else {},
        body=body,
        is_safe=verb not in {"create", "update"},
    )


def plain_call(path: str, resource: str) -> Call:
    """Return the request of a path that is no object's."""
    return Call(asked=Asked(verb="get", resource=resource), method="GET", path=path)
