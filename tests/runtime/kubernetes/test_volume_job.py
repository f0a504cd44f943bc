"""Tasks on a run volume: the Job that does one, and what becomes of its outcome."""

from dataclasses import replace
from typing import Any

import pytest

from runtime import kubernetes_volume_job
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_profile import FILES_SELECTOR
from runtime.kubernetes_volume_job import (
    VolumeTask,
    VolumeTaskError,
    run_volume_task,
    volume_job,
)
from runtime.launch.volume_task import UPLOAD_URL
from tests.runtime.kubernetes.fake_api import FakeApi
from tests.runtime.kubernetes.test_models import profile

NAMESPACE = "/api/v1/namespaces/lab"
URL = "http://bucket/key?X-Amz-Signature=canary"
UPLOAD = VolumeTask(
    words=("upload", "a", "0", "9"), sub_path="runs/run-1", secrets={UPLOAD_URL: URL}
)
FILES: dict[str, Any] = {
    "metadata": {"name": "files-1", "labels": FILES_SELECTOR},
    "spec": {
        "containers": [
            {"image": "python:3.12-slim", "securityContext": {"capabilities": {"drop": ["ALL"]}}}
        ],
        "securityContext": {"runAsUser": 1000},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "nodeName": "node-1",
    },
    "status": {"phase": "Running"},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between two looks."""
    monkeypatch.setattr(kubernetes_volume_job, "_POLL_S", 0.01)


def end(fake: FakeApi, phase: str, message: str) -> None:
    """Let the file server run, and the Job's pod end so once the Job is there."""
    fake.put(f"{NAMESPACE}/pods/files-1", FILES)

    def react(method: str, path: str) -> None:
        jobs = fake.paths("/jobs/")
        if jobs and f"{NAMESPACE}/pods/task-1" not in fake.objects:
            labels = {"batch.kubernetes.io/job-name": jobs[0].rpartition("/")[2]}
            state = {"terminated": {"message": message}}
            status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
            fake.put(f"{NAMESPACE}/pods/task-1", {"metadata": {"labels": labels}, "status": status})

    fake.on_change = react


def do(api: KubernetesApi, task: VolumeTask = UPLOAD) -> dict[str, Any]:
    """Do a task."""
    offer = profile().kubernetes
    assert offer is not None
    return run_volume_task(api, offer, task)


def test_a_task_returns_what_it_said_and_leaves_nothing(api: KubernetesApi, fake: FakeApi) -> None:
    end(fake, "Succeeded", '{"size": 9}')

    assert do(api) == {"size": 9}

    assert fake.count("POST", "secrets") == 1
    assert fake.paths("/jobs/") + fake.paths("/secrets/") == []


def test_a_task_that_fails_says_why_and_leaves_nothing(api: KubernetesApi, fake: FakeApi) -> None:
    end(fake, "Failed", "upload: OSError: the store answers 403 Forbidden")

    with pytest.raises(VolumeTaskError, match="403"):
        do(api)

    assert fake.paths("/jobs/") + fake.paths("/secrets/") == []


def test_a_task_whose_time_is_over_is_ended_and_leaves_nothing(
    api: KubernetesApi, fake: FakeApi
) -> None:
    end(fake, "Running", "")
    looks = iter(range(3))

    def check_time() -> None:
        if next(looks, None) is None:
            raise TimeoutError("the server ends")

    with pytest.raises(TimeoutError, match="the server ends"):
        do(api, replace(UPLOAD, check_time=check_time))

    assert fake.paths("/jobs/") + fake.paths("/secrets/") == []


def test_what_may_not_be_removed_hides_no_outcome(api: KubernetesApi, fake: FakeApi) -> None:
    end(fake, "Succeeded", '{"size": 9}')
    fake.fail("DELETE", "/secrets/", 403)

    assert do(api) == {"size": 9}

    assert fake.paths("/jobs/") == []


def test_a_cluster_without_a_file_server_does_no_task(api: KubernetesApi, fake: FakeApi) -> None:
    with pytest.raises(VolumeTaskError, match="paddock doctor"):
        do(api)

    assert fake.count("POST") == 0


def test_a_file_name_is_no_reference_to_the_jobs_secret() -> None:
    offer = profile().kubernetes
    assert offer is not None
    task = VolumeTask(words=("upload", f"a$$b$({UPLOAD_URL})"), sub_path="runs/run-1")

    job = volume_job("job-1", task, offer, like=FILES)

    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["upload", f"a$$$$b$$({UPLOAD_URL})"]


def test_the_pod_is_made_as_the_file_servers_is_and_sees_one_folder() -> None:
    offer = profile().kubernetes
    assert offer is not None

    job = volume_job("job-1", UPLOAD, offer, like=FILES)

    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "python:3.12-slim"
    assert (pod["securityContext"], pod["tolerations"]) == (
        FILES["spec"]["securityContext"],
        FILES["spec"]["tolerations"],
    )
    assert "nodeName" not in pod
    assert container["volumeMounts"][0]["subPath"] == "runs/run-1"
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": offer.run_claim}
    assert container["envFrom"] == [{"secretRef": {"name": "job-1"}}]
    assert "canary" not in str(job)
