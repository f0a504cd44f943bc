"""LocalState: the state directory of a local cluster: its slots, sockets and private files.

This module is never moved or renamed; old state refers to it by name.
"""

from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from infra.provider_errors import Provider

Props = dict[str, Any]  # Any: property values as the engine hands them over


class LocalStateProvider(Provider):
    """The provider of LocalState."""

    def create(self, props: Props) -> CreateResult:
        """Make the directory and declare its slots; one that is there is adopted."""
        _create(props)
        return CreateResult(props["statePath"], outs=dict(props))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Slots change in place; another path is another cluster."""
        moved = _olds["statePath"] != _news["statePath"]
        changed = moved or _olds["devices"] != _news["devices"]
        return DiffResult(changes=changed, replaces=["statePath"] if moved else [])

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Declare the new slots; slots that a run holds are kept until it ends."""
        _create(_news)
        return UpdateResult(outs=dict(_news))

    def delete(self, _id: str, _props: Props) -> None:
        """Remove the directory; refused while a run is live or holds slots."""
        from pathlib import Path

        from runtime.claims import remove_state

        remove_state(Path(_props["statePath"]))


def _create(props: Props) -> None:
    from pathlib import Path

    from runtime.local_state import create_state

    create_state(Path(props["statePath"]), devices=tuple(str(item) for item in props["devices"]))


class LocalState(Resource, module="paddock/local", name="State"):
    """The state directory of a local cluster."""

    def __init__(self, name: str, inputs: Props, opts: pulumi.ResourceOptions) -> None:
        """Declare the state directory."""
        super().__init__(LocalStateProvider(), name, inputs, opts)
