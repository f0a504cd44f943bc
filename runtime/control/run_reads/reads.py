"""RunReads: `services.Reads` over the files of runs, wherever they are."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pydantic import JsonValue

from runtime.control.readings import (
    Checkpoint,
    Component,
    Distribution,
    LogPage,
    Progress,
    SamplePage,
    TokenCount,
    Usage,
)
from runtime.control.requests import LogQuery, StepRange
from runtime.control.run_reads.distributions import read_distribution
from runtime.control.run_reads.read_gate import ReadGate
from runtime.control.run_reads.run_checkpoints import read_checkpoints
from runtime.control.run_reads.run_components import read_components
from runtime.control.run_reads.run_logs import read_logs
from runtime.control.run_reads.run_metrics import read_metrics, read_progress
from runtime.control.run_reads.run_rollouts import read_samples
from runtime.control.run_reads.run_tokens import RolloutTokens
from runtime.control.run_sources import RunFolder, RunSources
from runtime.control.values import StoredRun
from runtime.errors import PaddockError

_LOG = logging.getLogger(__name__)


class RunReads:
    """What runs have written; a run without a place yet has written nothing.

    Every method raises SourceUnavailableError, and BusyError where too many read from a cluster.
    """

    def __init__(self, sources: RunSources, usage: Callable[[StoredRun], Usage]) -> None:
        """Read from these sources; what a run has used billing knows."""
        self._sources = sources
        self._usage = usage
        self._tokens = RolloutTokens()
        self._gate = ReadGate()

    def logs(self, run: StoredRun, query: LogQuery) -> LogPage:
        """Return log lines; raises NotFoundError for a component that the run has not."""
        with self._folder(run) as folder:
            return read_logs(run, query, folder, now=time.time())

    def metrics(self, run: StoredRun, steps: StepRange) -> Sequence[Mapping[str, JsonValue]]:
        """Return rows of metrics, oldest first."""
        with self._folder(run) as folder:
            return read_metrics(folder.source, steps) if folder is not None else ()

    def samples(self, run: StoredRun, *, step: int, offset: int, limit: int) -> SamplePage:
        """Return rollouts of a step."""
        with self._folder(run) as folder:
            if folder is None:
                return SamplePage(samples=(), total=0)
            return read_samples(folder.source, step, offset=offset, limit=limit)

    def progress(self, run: StoredRun) -> Progress:
        """Return how far the run is."""
        with self._folder(run) as folder:
            return read_progress(folder.source) if folder is not None else Progress()

    def distribution(self, run: StoredRun, *, kind: str | None, step: int | None) -> Distribution:
        """Return a histogram; no kind = reward, no step = the latest."""
        with self._folder(run) as folder:
            if folder is None:
                return Distribution(bins=())
            return read_distribution(folder.source, kind=kind, step=step)

    def checkpoints(self, run: StoredRun) -> tuple[Checkpoint, ...]:
        """Return all checkpoints, oldest first."""
        with self._folder(run) as folder:
            if folder is None:
                return ()
            return read_checkpoints(run.run_id, folder, now=time.time())

    def components(self, run: StoredRun) -> tuple[Component, ...]:
        """Return all components of the current attempt."""
        with self._folder(run) as folder:
            source = folder.source if folder is not None else None
            return read_components(run, source, now=time.time())

    def usage(self, run: StoredRun) -> Usage:
        """Return what the run has used: what billing knows, and the tokens of its rollouts."""
        return replace(self._usage(run), inference=self._inference(run))

    def _inference(self, run: StoredRun) -> TokenCount:
        try:
            with self._folder(run) as folder:
                if folder is None:
                    return TokenCount()
                return self._tokens.count(run, folder.source, is_live=folder.is_live)
        except PaddockError as error:  # the cost is known even where the run's files are not
            what, run_id = "%s: the tokens of its rollouts are not known: %s", run.run_id
            _LOG.info(what, run_id, error, extra={"run": run_id})
            return TokenCount()

    @contextmanager
    def _folder(self, run: StoredRun) -> Iterator[RunFolder | None]:
        """Find the files of a run for a reading, if its cluster is not asked by too many."""
        with self._gate.entered(self._sources.asked_cluster(run)):
            yield self._sources.folder_of(run)
