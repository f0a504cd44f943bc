"""RunWatch: the objects of one run, or of all runs of a namespace, watched into a RunIndex.

One thread a kind lists and then watches. An API server that is away loses nothing: what was seen
stays, `unreachable_since` says so, and a new list finds what changed meanwhile. Kinds that the
cluster does not serve, or that may not be read and are not needed, are left out; one that nothing
hangs on holds up nothing while it fails.
"""

import random
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Self

from runtime import naming
from runtime.errors import PaddockError
from runtime.kubernetes_api import (
    KINDS,
    ForbiddenError,
    Kind,
    KubernetesApi,
    KubernetesError,
)
from runtime.kubernetes_kinds import KUEUE_VERSIONS
from runtime.observe.kubernetes.facts import RunFacts
from runtime.observe.kubernetes.index import RunIndex
from runtime.pod_names import LABEL_RECORD
from runtime.run_record import RunRecord

DEBOUNCE_S = 0.2
"""How long changes are gathered before they are reported."""

_WATCH_S = 60.0
"""A connection that breaks without a word is noticed after this and some seconds."""
_BACK_OFF_S = (0.5, 5.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Feed:
    """One kind that is watched; one that is not needed is left out where it may not be read.

    Where one that `decides` cannot be read just now, nothing may be judged.
    """

    kind: Kind
    labels: str | None = None
    is_needed: bool = True
    decides: bool = True


class RunWatch:
    """Watches until it is closed; safe to ask from any thread."""

    def __init__(self, api: KubernetesApi, feeds: tuple[_Feed, ...]) -> None:
        """Watch these; `open_watch` makes them."""
        self._api = api
        self._index = RunIndex(time.time)
        self._changed = threading.Condition()
        self._dirty: set[str] = set()
        self._closed = threading.Event()
        self._feeds = feeds
        self._listed: set[str] = set()
        self._waited = {feed.kind.name for feed in feeds if feed.decides}
        self._silent: dict[str, float] = {}
        self._unread: dict[str, str] = {}
        self._error: PaddockError | None = None

    def __enter__(self) -> Self:
        """Start watching."""
        for feed in self._feeds:
            name = f"watch-{feed.kind.plural}"
            threading.Thread(target=self._keep, args=(feed,), name=name, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching; threads that hang in a read end with the process."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    @property
    def unreachable_since(self) -> float | None:
        """Return since when the API does not answer, None while it does."""
        with self._changed:
            return min(self._silent.values(), default=None)

    @property
    def unread(self) -> str:
        """Return why a kind cannot be read though the needed ones can, empty where none fails."""
        with self._changed:
            is_away = any(feed.is_needed and feed.kind.name in self._silent for feed in self._feeds)
            return "" if is_away else next(iter(self._unread.values()), "")

    @property
    def is_current(self) -> bool:
        """Tell whether every kind that decides and may be read was listed, and the API answers."""
        with self._changed:
            return self._waited <= self._listed and not self._silent

    def changes(self, timeout_s: float) -> set[str]:
        """Return the runs that changed since the last call; waits for one at most so long.

        Raises what makes watching impossible: a missing permission, credentials that are refused.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._dirty or self._error, timeout_s)
        if self._dirty:
            self._closed.wait(DEBOUNCE_S)
        with self._changed:
            if self._error is not None:
                raise self._error
            dirty, self._dirty = self._dirty, set()
            return dirty

    def touch(self, run_id: str) -> None:
        """Report a run as changed, for example after its record was written elsewhere."""
        self._report({run_id})

    def facts(self, run_id: str, attempt: int) -> RunFacts:
        """Return what is seen of one attempt of a run."""
        with self._changed:
            return self._index.facts(run_id, attempt)

    def record(self, run_id: str) -> RunRecord | None:
        """Return the record of a run as last seen."""
        with self._changed:
            return self._index.record(run_id)

    def open_run_ids(self) -> list[str]:
        """Return the runs that live, or whose pods still do."""
        with self._changed:
            return self._index.open_run_ids()

    def _keep(self, feed: _Feed) -> None:
        """Follow one kind until the watch is closed."""
        pause_s = _BACK_OFF_S[0]
        while not self._closed.is_set():
            try:
                self._follow(feed)
                pause_s = _BACK_OFF_S[0]
                continue
            except KubernetesError as error:
                if self._ends(feed, error):
                    return
                self._fall_silent(feed, error)
            except Exception as error:  # a thread that ends in silence would blind the observer
                if not self._closed.is_set():  # else its connections were closed while it read
                    self._fail(error if isinstance(error, PaddockError) else _broken(feed, error))
                return
            self._closed.wait(pause_s * random.uniform(0.7, 1.3))
            pause_s = min(_BACK_OFF_S[1], pause_s * 2)

    def _follow(self, feed: _Feed) -> None:
        """List a kind, then watch it until the list is too old to go on from."""
        version = self._list(feed)
        while not self._closed.is_set():
            try:
                version = self._watch(feed, version)
            except KubernetesError as error:
                if error.is_expired:
                    return
                raise

    def _list(self, feed: _Feed) -> str:
        """Take in all objects of a kind, and keep none of them; return the list's version."""
        objects, version = self._api.list_with_version(feed.kind, labels=feed.labels)
        with self._changed:
            changed = self._index.take_list(feed.kind.name, objects)
            self._listed.add(feed.kind.name)
            changed |= self._hear(feed)
        self._report(changed)
        return version

    def _watch(self, feed: _Feed, version: str) -> str:
        """Take in what a watch yields; return the version that the next one goes on from."""
        started = time.monotonic()
        for change, manifest in self._api.watch(
            feed.kind, labels=feed.labels, resource_version=version, timeout_s=_WATCH_S
        ):
            version = str((manifest.get("metadata") or {}).get("resourceVersion") or version)
            if change != "BOOKMARK":
                with self._changed:
                    changed = self._index.take(feed.kind.name, change, manifest)
                self._report(changed)
            if self._closed.is_set():
                break
        if time.monotonic() - started < 1.0:
            self._closed.wait(_BACK_OFF_S[0])  # a server that ends every watch at once
        return version

    def _ends(self, feed: _Feed, error: KubernetesError) -> bool:
        """Tell whether a refusal ends the watch of a kind; one that is needed ends everything."""
        is_final = isinstance(error, ForbiddenError) or error.status in {401, 404, 405}
        if is_final and feed.is_needed:
            self._fail(error)
        elif is_final:
            with self._changed:
                self._waited.discard(feed.kind.name)
                self._dirty |= self._hear(feed)
                self._changed.notify_all()
        return is_final

    def _fall_silent(self, feed: _Feed, error: KubernetesError) -> None:
        if not feed.decides:
            return  # it is tried again, and nobody waits for it
        with self._changed:
            self._silent.setdefault(feed.kind.name, time.time())
            self._unread[feed.kind.name] = str(error)
            self._changed.notify_all()

    def _hear(self, feed: _Feed) -> set[str]:
        """Take a kind as one that answers; return the runs to judge again where all do by now."""
        self._unread.pop(feed.kind.name, None)
        was_silent = self._silent.pop(feed.kind.name, None) is not None
        return set(self._index.live_run_ids()) if was_silent and not self._silent else set()

    def _fail(self, error: PaddockError) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _report(self, changed: set[str]) -> None:
        if changed:
            with self._changed:
                self._dirty |= changed
                self._changed.notify_all()


def open_watch(
    api: KubernetesApi, *, run_id: str | None = None, has_queue: bool = True
) -> RunWatch:
    """Return a watch of one run, or of all, on what the cluster serves; enter it to start.

    Where the cluster has no queue for runs, nothing hangs on Kueue and JobSet.
    """
    run = naming.LABEL_RUN if run_id is None else f"{naming.LABEL_RUN}={run_id}"
    job_set = KINDS["JobSet"]
    feeds = [
        _Feed(kind=KINDS["ConfigMap"], labels=f"{LABEL_RECORD}=true,{run}"),
        _Feed(kind=KINDS["Job"], labels=run),
        _Feed(kind=KINDS["Pod"], labels=run),
        _Feed(kind=KINDS["Event"], is_needed=False),
    ]
    if api.serves(job_set.version, job_set.name):
        feeds.append(_Feed(kind=job_set, labels=run, is_needed=False, decides=has_queue))
    queue_api = next((one for one in KUEUE_VERSIONS if api.serves(one, "Workload")), None)
    if queue_api is not None:
        workload = KINDS["Workload"].at(queue_api)
        feeds.append(_Feed(kind=workload, is_needed=False, decides=has_queue))
    return RunWatch(api, tuple(feeds))


def _broken(feed: _Feed, error: Exception) -> PaddockError:
    traceback.print_exc()
    return PaddockError(f"watching {feed.kind.resource} broke: {type(error).__name__}: {error}")
