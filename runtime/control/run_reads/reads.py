"""RunReads: `services.Reads` over the files of runs, wherever they are."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
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
from runtime.control.run_reads.run_checkpoints import read_checkpoints
from runtime.control.run_reads.run_components import read_components
from runtime.control.run_reads.run_logs import read_logs
from runtime.control.run_reads.run_metrics import read_metrics, read_progress
from runtime.control.run_reads.run_rollouts import read_samples
from runtime.control.run_reads.run_tokens import RolloutTokens
from runtime.control.run_source import RunSource
from runtime.control.run_sources import RunSources
from runtime.control.values import StoredRun
from runtime.errors import PaddockError

_LOG = logging.getLogger(__name__)


class RunReads:
    """What runs have written; a run without a place yet has written nothing."""

    def __init__(self, sources: RunSources, usage: Callable[[StoredRun], Usage]) -> None:
        """Read from these sources; what a run has used billing knows."""
        self._sources = sources
        self._usage = usage
        self._tokens = RolloutTokens()

    def logs(self, run: StoredRun, query: LogQuery) -> LogPage:
        """Return log lines; raises NotFoundError for a component that the run has not."""
        return read_logs(run, query, self._sources.folder_of(run), now=time.time())

    def metrics(self, run: StoredRun, steps: StepRange) -> Sequence[Mapping[str, JsonValue]]:
        """Return rows of metrics, oldest first."""
        source = self._source(run)
        return read_metrics(source, steps) if source is not None else ()

    def samples(self, run: StoredRun, *, step: int, offset: int, limit: int) -> SamplePage:
        """Return rollouts of a step."""
        source = self._source(run)
        if source is None:
            return SamplePage(samples=(), total=0)
        return read_samples(source, step, offset=offset, limit=limit)

    def progress(self, run: StoredRun) -> Progress:
        """Return how far the run is."""
        source = self._source(run)
        return read_progress(source) if source is not None else Progress()

    def distribution(self, run: StoredRun, *, kind: str | None, step: int | None) -> Distribution:
        """Return a histogram; no kind = reward, no step = the latest."""
        source = self._source(run)
        if source is None:
            return Distribution(bins=())
        return read_distribution(source, kind=kind, step=step)

    def checkpoints(self, run: StoredRun) -> tuple[Checkpoint, ...]:
        """Return all checkpoints, oldest first."""
        folder = self._sources.folder_of(run)
        return read_checkpoints(run.run_id, folder, now=time.time()) if folder is not None else ()

    def components(self, run: StoredRun) -> tuple[Component, ...]:
        """Return all components of the current attempt."""
        return read_components(run, self._source(run), now=time.time())

    def usage(self, run: StoredRun) -> Usage:
        """Return what the run has used: what billing knows, and the tokens of its rollouts."""
        return replace(self._usage(run), inference=self._inference(run))

    def _inference(self, run: StoredRun) -> TokenCount:
        try:
            folder = self._sources.folder_of(run)
            if folder is None:
                return TokenCount()
            return self._tokens.count(run, folder.source, is_live=folder.is_live)
        except PaddockError as error:  # the cost is known even where the run's files are not
            what, run_id = "%s: the tokens of its rollouts are not known: %s", run.run_id
            _LOG.info(what, run_id, error, extra={"run": run_id})
            return TokenCount()

    def _source(self, run: StoredRun) -> RunSource | None:
        folder = self._sources.folder_of(run)
        return None if folder is None else folder.source
