"""The clusters of a server for tests: one local cluster whose run volume is a folder."""

from collections.abc import Mapping
from pathlib import Path

from runtime.cluster import ClusterProfile
from runtime.control.artifact_store import ArtifactStore, DirectoryStore
from runtime.control.readings import Usage
from runtime.control.run_reads.reads import RunReads
from runtime.control.run_sources import RunSources
from tests.runtime.control.reading.run_files import profile


class OneCluster:
    """Knows one local cluster."""

    def __init__(self, path: Path) -> None:
        """Serve the cluster of a folder."""
        self.path = path

    def profiles(self) -> Mapping[str, ClusterProfile]:
        """Return its profile."""
        return {"local": profile(self.path)}

    def volume_path(self, cluster: str, volume: str) -> Path | None:
        """Return the folder of a volume."""
        return self.path / "volumes" / volume

    def is_shared(self, volume: str) -> bool | None:
        """Know nothing."""
        return None


def sources_of(path: Path, store: ArtifactStore | None = None) -> RunSources:
    """Return the sources of the cluster's runs."""
    return RunSources(OneCluster(path), store or DirectoryStore(path / "artifacts"))


def reads_of(path: Path, store: ArtifactStore | None = None) -> RunReads:
    """Return the readings of the cluster's runs."""
    return RunReads(sources_of(path, store), lambda run: Usage())
