"""The clusters that a control plane serves: the cluster stacks of its backend, by their profiles.

A stack that exports a profile is a cluster; runs and volumes are not asked. Read again when a stack
has changed. `runtime.control.assembly` starts the loop; everybody else reads values.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from runtime import homes, naming
from runtime.cluster import ClusterProfile, parse_profile
from runtime.control import stacks
from runtime.control.backend import engine_service_environment, file_backend
from runtime.control.model_lists import ModelLists
from runtime.control.projects import RunFolder
from runtime.control.store import runs, volumes
from runtime.control.store.store import Store
from runtime.errors import PaddockError

_LOG = logging.getLogger(__name__)
FILE_LOOK_S = 5.0
"""How often a file backend is looked at: a list of a folder."""

OTHER_LOOK_S = 60.0
"""How often any other backend is asked: a start of the engine."""

_PATIENCE_S = 5.0
"""How long a request waits for the loop to be done with the engine."""

VOLUME_PREFIX = "volume-"
"""What the stack of a volume is named with, before the volume's id."""


class KnownClusters:
    """The clusters of one server; safe to use from several threads.

    `models` are the lists of their models, which `run` has read.
    """

    def __init__(self, store: Store, *, checkout: Path, environ: Mapping[str, str]) -> None:
        """Keep where stacks are; nothing is looked up yet."""
        self.models = ModelLists()
        self._store = store
        self._checkout = checkout
        self._environ = engine_service_environment(environ)
        self._profiles: dict[str, ClusterProfile] = {}
        self._updates: dict[str, str] = {}
        self._no_clusters: set[str] = set()
        self._seen: dict[str, int] | None = None
        self._paths: dict[str, Path] = {}
        self._shared: dict[str, bool] = {}
        self._lock = threading.Lock()

    def profiles(self) -> Mapping[str, ClusterProfile]:
        """Return the profiles by name."""
        return dict(self._profiles)

    def volume_path(self, cluster: str, volume: str) -> Path | None:
        """Return the folder of a volume's stack on a local cluster, None where it has none."""
        if volume not in self._paths:
            with self._store.read() as connection:
                found = volumes.find_volume(connection, volume.removeprefix(VOLUME_PREFIX))
            if found is None or not found.claim_name.startswith("/"):
                return None
            self._paths[volume] = Path(found.claim_name)
        return self._paths[volume]

    def is_shared(self, volume: str) -> bool | None:
        """Tell whether several nodes can mount a volume stack's claim, as the stack exports it.

        None where an older stack does not say, or cannot be read: the run's own `up` judges again.
        """
        if volume in self._shared:
            return self._shared[volume]
        if not self._lock.acquire(timeout=_PATIENCE_S):  # a backend that hangs holds up no request
            return None
        try:
            found = stacks.outputs(self._project(), volume).get("shared")
        except PaddockError as error:
            _LOG.error("volume %s: %s", volume, error)
            return None
        finally:
            self._lock.release()
        if not isinstance(found, bool):
            return None
        if volume.startswith(VOLUME_PREFIX):  # a claim of ours stays what it is
            self._shared[volume] = found
        return found

    def refresh(self) -> None:
        """Look for clusters that are new, changed or gone."""
        with self._lock:
            seen = self._signature()
            if seen is not None and seen == self._seen:
                return
            self._seen = seen if self._read() else None

    def run(self, is_over: threading.Event) -> None:
        """Refresh until the end; what fails is tried again."""
        is_file = file_backend(self._environ) is not None
        _attempt(self._refresh_models)
        while not is_over.wait(FILE_LOOK_S if is_file else OTHER_LOOK_S):
            _attempt(self.refresh)
            _attempt(self._refresh_models)

    def _refresh_models(self) -> None:
        self.models.refresh(self.profiles().values())

    def _read(self) -> bool:
        """Read what has changed; tell whether every stack could be read."""
        project = self._project()
        profiles, updates = {}, {}
        failed = False
        for stack, updated in stacks.stack_updates(project).items():
            if self._is_no_cluster(stack):
                continue
            profile = self._profiles.get(stack)
            if self._updates.get(stack) != updated:
                try:
                    profile = _read_profile(project, stack)
                except (
                    PaddockError
                ) as error:  # runs are on it: the last profile is better than none
                    _LOG.error("cluster %s: %s", stack, error)
                    failed = True
                    updated = self._updates.get(stack, "")
            updates[stack] = updated
            if profile is not None:
                profiles[stack] = profile
        for name in sorted(profiles.keys() ^ self._profiles.keys()):
            _LOG.info("cluster %s is %s", name, "served" if name in profiles else "gone")
        self._profiles, self._updates = profiles, updates
        return not failed

    def _is_no_cluster(self, stack: str) -> bool:
        if stack in self._no_clusters:
            return True
        if not stack.startswith(VOLUME_PREFIX):
            with self._store.read() as connection:
                if runs.get_run(connection, stack) is None:
                    return False
        self._no_clusters.add(stack)
        return True

    def _signature(self) -> dict[str, int] | None:
        """Return when each stack of a file backend was written but those of runs, else None."""
        backend = file_backend(self._environ)
        if backend is None:
            return None
        folder = backend / ".pulumi" / "stacks" / naming.PROJECT
        found = {}
        for path in folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if path.stem not in self._no_clusters:
                    found[path.stem] = path.stat().st_mtime_ns
        return found

    def _project(self) -> stacks.Project:
        # no run's id begins with a dot
        folder = RunFolder(path=homes.make_home() / "projects" / ".server", run_id="server")
        return folder.open_project(self._checkout, self._environ)


def _attempt(look: Callable[[], None]) -> None:
    try:
        look()
    except (PaddockError, OSError) as error:
        _LOG.error("the clusters could not be looked up: %s", error)
    except Exception:  # a loop that must go on: the database may be away for a while
        _LOG.exception("the clusters could not be looked up")


def _read_profile(project: stacks.Project, stack: str) -> ClusterProfile | None:
    """Return the profile that a stack exports, None for one that is no cluster, or not up."""
    found = stacks.outputs(project, stack).get("profile")
    return parse_profile(found, cluster=stack) if found is not None else None
