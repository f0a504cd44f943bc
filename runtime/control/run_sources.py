"""RunSources: where the files of a run are now: on its cluster's volume, or in the artifact store.

Used by the readers of runs and by their capture. Connections to clusters are kept.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.artifacts import runs_folder
from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.control.artifact_store import ArtifactStore
from runtime.control.captured_source import CapturedSource
from runtime.control.manifest import read_manifest
from runtime.control.places import Clusters
from runtime.control.planned import planned_components
from runtime.control.prune import LocalFolders, RunFolders
from runtime.control.run_capture.chosen_files import total_size
from runtime.control.run_source import FolderSource, RunSource, SourceUnavailableError
from runtime.control.values import StoredRun
from runtime.states import Capture, RunState

if TYPE_CHECKING:
    from runtime.control.cluster_source import ClusterReach

_NUM_MANIFESTS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFolder:
    """The files of a run as they are read now.

    `is_live`: they may still grow; `is_local`: this machine's clock and the embedded engine wrote
    them.
    """

    source: RunSource
    is_live: bool
    is_local: bool


class RunSources:
    """Finds the files of runs; safe to use from several threads."""

    def __init__(self, clusters: Clusters, artifacts: ArtifactStore | None) -> None:
        """Look on these clusters and in this store; nothing is asked yet."""
        self._clusters = clusters
        self.artifacts = artifacts
        self._reaches: dict[KubernetesConnection, ClusterReach] = {}
        self._manifests: OrderedDict[tuple[str, int], CapturedSource] = OrderedDict()
        self._lock = threading.Lock()

    def folder_of(self, run: StoredRun) -> RunFolder | None:
        """Return the files of a run, None while it has no place.

        What was captured whole is read from the store, so that a run reads the same when its volume
        is gone; what was captured in part only where the volume does not answer.
        """
        profile = self._clusters.profiles().get(run.cluster or "")
        is_local = profile is not None and profile.target == "local"
        source = self.captured(run) if run.capture is Capture.DONE else None
        if source is None:
            live = self.live(run)
            if run.capture is Capture.INCOMPLETE and not _answers(live):
                source = self.captured(run)
            if source is None and live is not None:
                if not is_local and not _answers(live) and not self._is_cut_off(profile):
                    live = self.pod_logs(run) or live
                is_live = not run.is_over and run.state is not RunState.PAUSED
                return RunFolder(source=live, is_live=is_live, is_local=is_local)
        return source and RunFolder(source=source, is_live=False, is_local=is_local)

    def live(self, run: StoredRun) -> RunSource | None:
        """Return the run directory itself, None where the run's cluster is not known."""
        profile = self._clusters.profiles().get(run.cluster or "")
        if profile is None:
            return None
        if isinstance(profile.connection, KubernetesConnection):
            from runtime.control.cluster_source import ClusterSource

            reach = self._reach(profile, profile.connection)
            # the claim of another volume than the cluster's own is not known here
            can_upload = profile.kubernetes is not None and not run.settings.get("volume")
            return ClusterSource(reach.files, run.run_id, reach.do if can_upload else None)
        path = self.local_path(run)
        return None if path is None else FolderSource(path)

    def pod_logs(self, run: StoredRun) -> RunSource | None:
        """Return the logs that the pods of a run still have, None for a run without pods."""
        profile = self._clusters.profiles().get(run.cluster or "")
        if profile is None or not isinstance(profile.connection, KubernetesConnection):
            return None
        from runtime.control.pod_log_source import PodLogSource

        logs = {one.pod_key: one.log for one in planned_components(run)}
        api = self._reach(profile, profile.connection).api
        return PodLogSource(api, run.run_id, run.attempt, logs)

    def asked_cluster(self, run: StoredRun) -> str | None:
        """Return the cluster that a reader of a run asks over the network, None for no cluster.

        Raises SourceUnavailableError.
        """
        profile = self._clusters.profiles().get(run.cluster or "")
        if profile is None or not isinstance(profile.connection, KubernetesConnection):
            return None
        is_kept = run.capture is Capture.DONE and self.captured(run) is not None
        return None if is_kept else profile.name

    def local_path(self, run: StoredRun) -> Path | None:
        """Return the run directory of a run on this machine, None for any other."""
        profile = self._clusters.profiles().get(run.cluster or "")
        if profile is None or profile.target != "local":
            return None
        volume = run.settings.get("volume")
        if not volume:
            return Path(profile.runs_path) / run.run_id
        path = self._clusters.volume_path(profile.name, str(volume))
        return None if path is None else runs_folder(path) / run.run_id

    def captured(self, run: StoredRun) -> CapturedSource | None:
        """Return what was captured of a run, None where there is nothing.

        Raises SourceUnavailableError.
        """
        if self.artifacts is None:
            return None
        key = (run.run_id, run.attempt)
        with self._lock:
            if key in self._manifests:
                self._manifests.move_to_end(key)
                return self._manifests[key]
        manifest = read_manifest(self.artifacts, run.run_id)
        if manifest is None:
            return None
        source = CapturedSource(self.artifacts, manifest)
        if manifest.is_complete and manifest.attempt == run.attempt:
            with self._lock:
                self._manifests[key] = source
                while len(self._manifests) > _NUM_MANIFESTS:
                    self._manifests.popitem(last=False)
        return source

    def run_folders(self, run: StoredRun) -> RunFolders | None:
        """Return where the directory of a run can be deleted, None where it cannot from here."""
        profile = self._clusters.profiles().get(run.cluster or "")
        path = self.local_path(run)
        if path is not None:
            return LocalFolders(path.parent)
        if profile is None or not isinstance(profile.connection, KubernetesConnection):
            return None
        if profile.kubernetes is None or run.settings.get("volume"):
            return None
        from runtime.control.cluster_source import ClusterFolders

        return ClusterFolders(self._reach(profile, profile.connection).do)

    def size_of(self, run: StoredRun) -> int:
        """Return what a run's directory takes, 0 where there is none that could be deleted.

        Raises SourceUnavailableError.
        """
        folders, source = self.run_folders(run), self.live(run)
        if folders is None or source is None:
            return 0
        return folders.size(run.run_id) if isinstance(folders, LocalFolders) else total_size(source)

    def _is_cut_off(self, profile: ClusterProfile | None) -> bool:
        """Tell whether a cluster's API is away, so that no pod's log can be asked for either."""
        if profile is None or not isinstance(profile.connection, KubernetesConnection):
            return False
        return self._reach(profile, profile.connection).files.is_cut_off

    def _reach(self, profile: ClusterProfile, connection: KubernetesConnection) -> "ClusterReach":
        from runtime.control.cluster_source import open_reach

        with self._lock:
            if connection not in self._reaches:
                self._reaches[connection] = open_reach(profile, connection)
            return self._reaches[connection]


def _answers(source: RunSource | None) -> bool:
    try:
        return source is not None and bool(source.entries(""))
    except SourceUnavailableError:
        return False
