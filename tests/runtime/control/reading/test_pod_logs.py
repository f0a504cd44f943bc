"""Where no file server shows a run, what its pods still have of their logs is read and kept."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from runtime import naming, pod_names
from runtime.control.artifact_store import DirectoryStore
from runtime.control.captures import CaptureState
from runtime.control.manifest import read_manifest
from runtime.control.pod_log_source import PodLogSource
from runtime.control.requests import LogQuery
from runtime.control.run_captures import StoreCapturer
from runtime.control.run_reads.run_logs import read_logs
from runtime.control.run_source import RunSource, SourceUnavailableError
from runtime.control.run_sources import RunFolder, RunSources
from runtime.control.values import StoredRun
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.states import Capture, RunState
from tests.runtime.control.reading.clusters import OneCluster
from tests.runtime.control.reading.run_files import NOON, RUN_ID, stored_run
from tests.waiting import wait_for

LOGS = {"orchestrator-0-0": "orchestrator.log", "env-train-math-0-0": "envs/train/math.log"}


class PodsApi:
    """Pods by key, and what kubelet has of their logs."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        """Have these."""
        self.texts = texts
        self.error: KubernetesError | None = None

    def list(self, kind: str, *, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return the pods of a run."""
        assert labels == {naming.LABEL_RUN: RUN_ID, naming.LABEL_ATTEMPT: "1"}
        return [
            {
                "metadata": {
                    "name": f"pod-{key}",
                    "labels": {
                        **labels,
                        pod_names.LABEL_REPLICATED_JOB: key.rsplit("-", 2)[0],
                        pod_names.LABEL_JOB_INDEX: key.rsplit("-", 2)[1],
                    },
                }
            }
            for key in self.texts
        ]

    def pod_log(self, name: str, *, container: str) -> Iterator[bytes]:
        """Yield a log in pieces."""
        if self.error is not None:
            raise self.error
        text = self.texts[name.removeprefix("pod-")]
        yield text[:7]
        yield text[7:]


def source_of(api: PodsApi) -> PodLogSource:
    """Return the logs of the run's pods."""
    return PodLogSource(cast("KubernetesApi", api), RUN_ID, 1, LOGS)  # as much as is asked


def test_logs_of_pods_look_like_files_of_the_run_directory() -> None:
    source = source_of(PodsApi({"orchestrator-0-0": b"INFO one\nERROR two\n"}))
    run = stored_run(Path("/nowhere"))

    assert [entry.name for entry in source.entries("logs")] == ["attempt_1"]
    assert [entry.name for entry in source.entries("logs/attempt_1")] == ["orchestrator.log"]
    assert source.size("logs/attempt_1/envs/train/math.log") is None
    folder = RunFolder(source=source, is_live=True, is_local=False)
    page = read_logs(run, LogQuery(level="ERROR", since_s=60), folder, now=NOON)
    assert page.text == "ERROR two\n"


@pytest.mark.parametrize("status", [400, 404])
def test_a_container_that_has_not_started_has_no_log(status: int) -> None:
    api = PodsApi({"orchestrator-0-0": b""})
    api.error = KubernetesError("container is waiting to start", status=status)

    assert source_of(api).entries("") == []


def test_an_api_that_is_away_is_said() -> None:
    api = PodsApi({"orchestrator-0-0": b""})
    api.error = KubernetesError("away", status=503)

    with pytest.raises(SourceUnavailableError):
        source_of(api).entries("")


class AwaySources(RunSources):
    """The sources of a cluster whose file server is away."""

    def live(self, run: StoredRun) -> RunSource | None:
        """Return files that cannot be read."""

        class Away:
            def entries(self, folder: str) -> list[object]:
                raise SourceUnavailableError("the file server is away")

        return cast("RunSource", Away())

    def pod_logs(self, run: StoredRun) -> RunSource | None:
        """Return what the pods have."""
        return source_of(PodsApi({"orchestrator-0-0": b"INFO last words\n"}))


def test_a_capture_without_the_files_keeps_the_logs_of_the_pods(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "artifacts")
    sources = AwaySources(OneCluster(tmp_path), store)
    run = stored_run(tmp_path, RunState.FAILED)
    capturer = StoreCapturer(sources, limit_s=0.2)

    capturer.capture(run)
    wait_for(lambda: capturer.capture(run).state is not CaptureState.RUNNING)
    report = capturer.capture(run)
    capturer.close()

    assert report.state is CaptureState.FAILED
    assert report.message == "only the logs of its pods: the file server is away"
    manifest = read_manifest(store, RUN_ID)
    assert manifest is not None
    assert not manifest.is_complete
    folder = sources.folder_of(replace(run, capture=Capture.INCOMPLETE))
    assert folder is not None
    assert read_logs(run, LogQuery(), folder, now=NOON).text == "INFO last words\n"
