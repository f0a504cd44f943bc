"""A run as the fake API sees it: RunSpec's inputs, and objects with the labels of a run."""

from runtime.kubernetes_record import ClusterRecord
from runtime.run_record import RunRecord
from tests.runtime.kubernetes.fake_api import FakeApi

CORE = "/api/v1/namespaces/lab"
JOBS = "/apis/batch/v1/namespaces/lab/jobs"
NAMESPACE = "/api/v1/namespaces/lab"
RECORD = f"{CORE}/configmaps/paddock-record-run-one"

INPUTS = {
    "target": "kubernetes",
    "runId": "run-one",
    "attempt": 1,
    "cluster": "lab",
    "context": "fake",
    "namespace": "lab",
    "configDigest": "d1",
    "configKeys": {"max_steps": "a"},
    "imageRepository": "example.org/rl",
    "imageTag": "main",
    "manifestDigest": "m1",
    "kinds": ["Job", "Secret", "ConfigMap", "Service"],
}


def read(record: ClusterRecord) -> RunRecord:
    found = record.read()
    assert found is not None
    return found


def owned(attempt: int = 1, run_id: str = "run-one", **more: object) -> dict:
    labels = {
        "app.kubernetes.io/managed-by": "paddock",
        "paddock.dev/run": run_id,
        "paddock.dev/attempt": str(attempt),
        "paddock.dev/component": "run",
    }
    return {"metadata": {"labels": labels, **more}, "spec": {}}


def put_objects(fake: FakeApi, attempt: int = 1, run_id: str = "run-one") -> None:
    for path in (f"{JOBS}/%s-trainer", f"{CORE}/pods/%s-trainer-x", f"{CORE}/secrets/%s-env"):
        fake.put(path % f"{run_id}-{attempt}", owned(attempt, run_id))
    fake.put(f"{CORE}/configmaps/{run_id}-{attempt}-launch", owned(attempt, run_id))
