"""Readings of a server that reads nothing of its runs: every run has written nothing yet."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from runtime.control.readings import (
    Checkpoint,
    Component,
    Distribution,
    LogPage,
    Progress,
    SamplePage,
    Usage,
)
from runtime.control.requests import LogQuery, StepRange
from runtime.control.values import StoredRun


class NoReads:
    """Has nothing to show; `services.Reads`."""

    def logs(self, run: StoredRun, query: LogQuery) -> LogPage:
        """Return no lines."""
        return LogPage(text="", has_started=False)

    def metrics(self, run: StoredRun, steps: StepRange) -> Sequence[Mapping[str, JsonValue]]:
        """Return no rows."""
        return ()

    def samples(self, run: StoredRun, *, step: int, offset: int, limit: int) -> SamplePage:
        """Return no rollouts."""
        return SamplePage(samples=(), total=0)

    def progress(self, run: StoredRun) -> Progress:
        """Return no progress."""
        return Progress()

    def distribution(self, run: StoredRun, *, kind: str | None, step: int | None) -> Distribution:
        """Return an empty histogram."""
        return Distribution(bins=())

    def checkpoints(self, run: StoredRun) -> tuple[Checkpoint, ...]:
        """Return none."""
        return ()

    def components(self, run: StoredRun) -> tuple[Component, ...]:
        """Return none."""
        return ()

    def usage(self, run: StoredRun) -> Usage:
        """Return nothing used."""
        return Usage()
