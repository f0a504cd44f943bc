"""LocalVolume: a folder that outlives runs; what a ReadWriteMany claim is elsewhere.

Protected: Pulumi refuses to delete it until `pulumi state unprotect`. This module is never moved
or renamed; old state refers to it by name.
"""

from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource

from infra.provider_errors import Provider

Props = dict[str, Any]  # Any: property values as the engine hands them over

MARK = ".paddock-volume"
"""In a folder that paddock made: the name of the stack whose volume it is."""


class LocalVolumeProvider(Provider):
    """The provider of LocalVolume."""

    def create(self, props: Props) -> CreateResult:
        """Make the folder, or adopt the one that is there.

        One with our mark is what an `up` made that was cut off before the engine knew of it.
        """
        from pathlib import Path

        from runtime.artifacts import runs_folder

        path, mark = Path(props["path"]), Path(props["path"]) / MARK
        name = str(props.get("volume", ""))
        if not path.exists():
            path.mkdir(parents=True)
            mark.write_text(name)
        adopted = not mark.exists() or mark.read_text() != name
        runs_folder(path).mkdir(parents=True, exist_ok=True)
        return CreateResult(props["path"], outs={**props, "adopted": adopted})

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another path is another volume."""
        moved = _olds["path"] != _news["path"]
        return DiffResult(changes=moved, replaces=["path"] if moved else [])

    def delete(self, _id: str, _props: Props) -> None:
        """Remove the folder that paddock made; one that was there before is left."""
        import shutil
        from pathlib import Path

        path = Path(_props["path"])
        if path.exists() and not _props.get("adopted"):
            shutil.rmtree(path)  # what cannot be removed is no success: the volume stays in state


class LocalVolume(Resource, module="paddock/local", name="Volume"):
    """A folder that outlives runs."""

    def __init__(self, name: str, inputs: Props, opts: pulumi.ResourceOptions) -> None:
        """Declare the volume; `adopted` tells whether the folder was there before."""
        super().__init__(LocalVolumeProvider(), name, {**inputs, "adopted": None}, opts)
