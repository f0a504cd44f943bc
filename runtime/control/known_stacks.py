"""The stacks of a server's own state backend, and which of them it can open with their secrets.

Reads and never changes one. Asked about runs that were made by hand (`runtime.control.adopted`),
and by the sweep for stacks that nobody has any more (`runtime.control.stack_orphans`).
"""

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from runtime import homes, naming
from runtime.control import stacks
from runtime.control.backend import engine_service_environment, file_backend
from runtime.control.failures import failure_of
from runtime.control.operations import OperationKind
from runtime.control.projects import RunFolder
from runtime.control.stack_facts import StackFacts
from runtime.control.stacks import ListedStack
from runtime.control.store import run_lists
from runtime.control.store.store import Store
from runtime.control.values import StoredRun
from runtime.errors import PaddockError

_LOG = logging.getLogger(__name__)
_LOOK_S = 5.0
_AGAIN_S = (15.0, 3600.0)
"""The first and the longest wait before a stack is read again that could not be opened: what makes
it so may pass, as an update under way does, and then its file may stay as it is."""

_OTHER_S = 120.0
"""How long what was read holds where no file tells when a stack was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    facts: StackFacts
    signature: int | str | None
    time: float
    num_failed: int = 0


class KnownStacks:
    """Reads stacks one at a time, and remembers what it read; safe to use from several threads.

    Implements `runtime.control.stack_facts.Stacks`.
    """

    def __init__(self, store: Store, *, checkout: Path, environ: Mapping[str, str]) -> None:
        """Keep where stacks are; nothing is looked up yet."""
        self._store = store
        self._checkout = checkout
        self._environ = engine_service_environment(environ)
        self._backend = file_backend(self._environ)
        self._reads: dict[str, _Read] = {}
        self._updates: dict[str, str] = {}
        self._listed_at = 0.0
        self._lock = threading.Lock()

    def listed(self) -> list[ListedStack]:
        """Return what the backend lists; takes a start of the engine."""
        with self._lock:
            listed = stacks.listed_stacks(self._project())
            self._updates = {one.name: one.updated for one in listed}
            self._listed_at = time.monotonic()
            return listed

    def facts(self, stack: str) -> StackFacts:
        """Return what a stack says of itself; takes two starts of the engine after a change."""
        with self._lock:
            known = self._reads.get(stack)
            if known is None or not self._holds(stack, known):
                known = self._reads[stack] = self._read_again(stack, known)
            return known.facts

    def owns(self, run: StoredRun) -> bool:
        """Tell whether a run's stack is in this backend and can be opened, as far as was read."""
        known = self._reads.get(run.run_id)
        return known is not None and known.facts.is_run_on(run.cluster)

    def run(self, is_over: threading.Event) -> None:
        """Read the stacks of adopted runs until the end."""
        while not is_over.is_set():
            try:
                self.look()
            except Exception:  # a loop that must go on: the database may be away for a while
                _LOG.exception("the stacks of adopted runs could not be looked up")
            is_over.wait(_LOOK_S)

    def look(self) -> None:
        """Read the stacks of the adopted runs that live, where they have changed."""
        with self._store.read() as connection:
            live = [run for run in run_lists.live_runs(connection) if run.is_adopted]
        for run in live:
            self.facts(run.run_id)

    def _read_again(self, stack: str, known: _Read | None) -> _Read:
        signature = self._signature(stack)  # before the read: what comes later is read again
        facts = self._read(stack)
        is_same = known is not None and known.signature == signature
        num_failed = known.num_failed if known is not None and is_same else 0
        return _Read(
            facts=facts,
            signature=signature,
            time=time.monotonic(),
            num_failed=num_failed + bool(facts.trouble),
        )

    def _read(self, stack: str) -> StackFacts:
        if self._backend is not None and self._signature(stack) is None:
            return StackFacts(trouble="it is not in this server's state backend")
        project = self._project()
        settings: dict[str, JsonValue] = {}
        try:
            stacks.refresh_settings(project, stack)
            settings = stacks.read_settings(project, stack)
            stacks.check_secrets(project, stack)
        except PaddockError as error:
            trouble = failure_of(error, OperationKind.RECOVER).message
            return StackFacts(settings=settings, trouble=f"it cannot be opened: {trouble}")
        finally:
            project.settings_file(stack).unlink(missing_ok=True)
        return StackFacts(settings=settings)

    def _holds(self, stack: str, known: _Read) -> bool:
        if self._signature(stack) != known.signature:
            return False
        age_s = time.monotonic() - known.time
        if known.facts.trouble:
            return age_s < min(_AGAIN_S[0] * 2 ** min(known.num_failed - 1, 10), _AGAIN_S[1])
        is_told = self._backend is not None or self._listed_at > known.time
        return is_told or age_s < _OTHER_S

    def _signature(self, stack: str) -> int | str | None:
        """Return when a stack was written: of a file backend by now, else as of the last list."""
        if self._backend is None:
            return self._updates.get(stack)
        folder = self._backend / ".pulumi" / "stacks" / naming.PROJECT
        for name in (f"{stack}.json", f"{stack}.json.gz"):
            with contextlib.suppress(OSError):
                return (folder / name).stat().st_mtime_ns
        return None

    def _project(self) -> stacks.Project:
        # no run's id begins with a dot; of its own, for a project is no two engines' at once
        folder = RunFolder(path=homes.make_home() / "projects" / ".stacks", run_id="stacks")
        return folder.open_project(self._checkout, self._environ)
