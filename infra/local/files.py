"""RunFiles: the user's TOML and the plan in the run directory; what a ConfigMap is elsewhere.

A run stack owns no storage: deleting the resource leaves the files, which are the run's artifacts.
This module is never moved or renamed; old state refers to it by name.
"""

from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, UpdateResult

from infra.provider_errors import Provider

Props = dict[str, Any]  # Any: property values as the engine hands them over


class RunFilesProvider(Provider):
    """The provider of RunFiles."""

    def create(self, props: Props) -> CreateResult:
        """Write the files."""
        _write(props)
        return CreateResult(props["runPath"], outs=dict(props))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Files are rewritten in place when their content or the attempt changes."""
        keys = ("files", "attempt", "runPath")
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in keys))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Write the files again."""
        _write(_news)
        return UpdateResult(outs=dict(_news))

    def delete(self, _id: str, _props: Props) -> None:
        """Leave the files: they are the run's artifacts."""


class RunFiles(Resource, module="paddock/local", name="RunFiles"):
    """Files of a run, by path relative to its run directory."""

    def __init__(self, name: str, inputs: Props, opts: pulumi.ResourceOptions) -> None:
        """Declare the files of a run."""
        super().__init__(RunFilesProvider(), name, inputs, opts)


def _write(props: Props) -> None:
    from pathlib import Path

    for relative, text in props["files"].items():
        path = Path(props["runPath"]) / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_text(text)
        temporary.replace(path)
