"""An operator on a site of the real engine, and operations as a reconciler would make them."""

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from runtime.control.operations import (
    Operation,
    OperationKind,
    OperationReport,
    OperationState,
    OperatorLimits,
)
from runtime.control.operator import ProcessOperator
from runtime.control.projects import RunFolder, run_folder
from runtime.control.store.store import Store
from tests.engine.sites import ROOT, Site
from tests.waiting import wait_for

OPERATION_S = 180
LIMITS = OperatorLimits(num_workers=2, operation_s=150.0, grace_s=20.0, drain_s=1.0)

_numbers = itertools.count()


@dataclass(kw_only=True)
class Operating:
    """An operator, and the waiting that its callers do elsewhere."""

    site: Site
    store: Store
    limits: OperatorLimits = LIMITS
    operator: ProcessOperator = field(init=False)

    def __post_init__(self) -> None:
        self.operator = self.another()

    def another(self) -> ProcessOperator:
        """Return an operator as a server has it that is started anew on the same host."""
        return ProcessOperator(
            self.store, checkout=ROOT, environ=self.site.environment, limits=self.limits
        )

    def start(self, kind: OperationKind, run_id: str, **fields: object) -> None:
        """Start an operation."""
        self.operator.start(operation(kind, run_id, **fields))

    def end(self, run_id: str) -> OperationReport:
        """Wait for the end of a run's operation."""
        return ended(self.operator, run_id)

    def perform(self, kind: OperationKind, run_id: str, **fields: object) -> OperationReport:
        """Start an operation and wait for its end."""
        self.start(kind, run_id, **fields)
        return self.end(run_id)

    def make(self, run_id: str, behaviour: str = "long", **fields: object) -> OperationReport:
        """Make a run's stack, its TOML as a text among the settings."""
        text = self.site.write_toml(run_id, behaviour).read_text()
        settings = {"cluster": self.site.cluster, "configText": text}
        return self.perform(OperationKind.MAKE, run_id, settings=settings, **fields)


def operation(kind: OperationKind, run_id: str, **fields: object) -> Operation:
    """Return an operation with an id of its own."""
    given = {"attempt": 1, "cluster": "local", **fields}
    return Operation(operation_id=f"op-{next(_numbers)}", kind=kind, run_id=run_id, **given)  # type: ignore[arg-type] # as the fields are


def ended(operator: ProcessOperator, run_id: str) -> OperationReport:
    """Wait for the end of a run's operation."""

    def report() -> OperationReport | None:
        found = operator.state(run_id)
        assert found is not None
        return found if found.state is not OperationState.RUNNING else None

    found = wait_for(report, timeout_s=OPERATION_S)
    assert found is not None
    return found


def folder_of(run_id: str) -> RunFolder:
    """Return the private folder of a run of the site, whose home is this process' own."""
    return run_folder(run_id)


def scripted_environment(folder: Path, script: str, **extra: str) -> dict[str, str]:
    """Make an engine that is a shell script, and return the environment that finds it.

    It has `NOTES`, the folder; home and cache are in there too.
    """
    programs = folder / "bin"
    programs.mkdir()
    for name, text in {"pulumi": script, "pulumi-language-python": "exit 1"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(folder),
        "PADDOCK_HOME": str(folder / "home"),
        "PADDOCK_CACHE": str(folder / "cache"),
        "NOTES": str(folder),
        **extra,
    }
