"""KubernetesApi against an API that fails in the ways that real ones do."""

import json
from pathlib import Path

import pytest

from runtime.kubernetes_api import (
    KINDS,
    ForbiddenError,
    KubernetesApi,
    KubernetesError,
    UnreachableError,
)
from tests.runtime.kubernetes.fake_api import BREAK, FakeApi, connect, write_kubeconfig

JOBS = "/apis/batch/v1/namespaces/lab/jobs"
PODS = "/api/v1/namespaces/lab/pods"


def job(name: str, **labels: str) -> dict:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}


def test_an_object_is_created_read_and_deleted(fake: FakeApi, api: KubernetesApi) -> None:
    api.create("Job", job("one"))

    found = api.get("Job", "one")

    assert found is not None
    assert fake.requests[0].query == {"fieldManager": "paddock"}
    assert fake.requests[0].headers["Authorization"] == "Bearer a-token"
    assert api.delete("Job", "one", uid=found["metadata"]["uid"])
    assert fake.requests[-1].body["propagationPolicy"] == "Foreground"
    assert api.get("Job", "one") is None
    assert not api.delete("Job", "one")


def test_an_object_of_another_uid_is_not_deleted(fake: FakeApi, api: KubernetesApi) -> None:
    fake.put(f"{JOBS}/one", job("one"))

    assert not api.delete("Job", "one", uid="of another attempt")
    assert fake.paths() == [f"{JOBS}/one"]


def test_a_list_takes_all_pages_and_selects_by_labels(fake: FakeApi, api: KubernetesApi) -> None:
    for number in range(1203):
        fake.put(f"{PODS}/p{number}", {"metadata": {"labels": {"run": str(number % 2)}}})

    items, version = api.list_with_version("Pod", labels={"run": "1"})

    assert len(items) == 601
    assert version == str(fake.version)
    assert fake.count("GET", PODS) == 2
    assert items[0]["kind"] == "Pod"


def test_a_list_begins_again_when_its_pages_expire(fake: FakeApi, api: KubernetesApi) -> None:
    for number in range(700):
        fake.put(f"{PODS}/p{number}", {})
    answers = []

    def expire(method: str, path: str) -> None:
        answers.append(path)
        if len(answers) == 1:
            fake.fail("GET", PODS, 410, reason="Expired", message="too old")

    fake.on_change = expire

    assert len(api.list("Pod")) == 700


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, BREAK])
def test_a_read_is_tried_again(fake: FakeApi, api: KubernetesApi, status: int) -> None:
    fake.put(f"{JOBS}/one", job("one"))
    fake.fail("GET", JOBS, status, times=3)

    assert api.get("Job", "one") is not None
    assert fake.count("GET") >= 1


def test_a_create_that_may_have_arrived_is_not_sent_again(
    fake: FakeApi, api: KubernetesApi
) -> None:
    fake.fail("POST", JOBS, BREAK)

    with pytest.raises(UnreachableError, match=r"context fake: .* does not answer \(create jobs"):
        api.create("Job", job("one"))

    assert fake.count("POST") == 1


def test_a_create_that_a_busy_server_put_off_is_sent_again(
    fake: FakeApi, api: KubernetesApi
) -> None:
    fake.fail("POST", JOBS, 429, times=2)

    api.create("Job", job("one"))

    assert fake.paths() == [f"{JOBS}/one"]


def test_a_server_that_is_gone_is_unreachable(tmp_path: Path, fake: FakeApi) -> None:
    api = connect(write_kubeconfig(tmp_path / "gone", "http://127.0.0.1:1"))

    with pytest.raises(UnreachableError, match="check the network"):
        api.list("Pod")


def test_a_server_that_only_fails_is_unreachable(fake: FakeApi, api: KubernetesApi) -> None:
    fake.fail("GET", PODS, 503, times=9, message="etcd is away")

    with pytest.raises(UnreachableError, match="etcd is away") as caught:
        api.list("Pod")

    assert caught.value.status == 503


def test_a_conflict_and_a_double_have_their_reason(fake: FakeApi, api: KubernetesApi) -> None:
    made = api.create("Job", job("one"))
    with pytest.raises(KubernetesError) as double:
        api.create("Job", job("one"))
    api.replace("Job", made)
    with pytest.raises(KubernetesError) as stale:
        api.replace("Job", made)

    assert double.value.already_exists
    assert stale.value.is_conflict


def test_a_missing_permission_names_verb_and_resource(fake: FakeApi, api: KubernetesApi) -> None:
    fake.fail("GET", JOBS, 403, reason="Forbidden", message='User "ann" cannot get jobs')

    with pytest.raises(ForbiddenError) as caught:
        api.get("Job", "one")

    assert "not allowed to get jobs.batch one in namespace lab" in str(caught.value)
    assert "Ask for a role with verb get on jobs.batch" in str(caught.value)


def test_a_quota_is_no_missing_permission(fake: FakeApi, api: KubernetesApi) -> None:
    message = "jobs is forbidden: exceeded quota: q, requested: 8"
    fake.fail("POST", JOBS, 403, reason="Forbidden", message=message)

    with pytest.raises(KubernetesError, match="exceeded quota") as caught:
        api.create("Job", job("one"))

    assert not isinstance(caught.value, ForbiddenError)


def test_a_manifest_is_applied_in_its_own_version(fake: FakeApi, api: KubernetesApi) -> None:
    manifest = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "q", "namespace": "other"},
    }

    api.apply(manifest, dry_run=True)

    request = fake.requests[-1]
    assert request.path == "/apis/kueue.x-k8s.io/v1beta1/namespaces/other/localqueues/q"
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert request.query == {
        "fieldManager": "paddock",
        "force": "true",
        "fieldValidation": "Strict",
        "dryRun": "All",
    }


def test_a_status_is_patched_at_its_subresource(fake: FakeApi, api: KubernetesApi) -> None:
    api.patch("Node", "n0", {"status": {}}, subresource="status")

    assert fake.requests[-1].path == "/api/v1/nodes/n0/status"
    assert fake.requests[-1].headers["Content-Type"] == "application/merge-patch+json"


def event(event_type: str, **body: object) -> bytes:
    return json.dumps({"type": event_type, "object": body}).encode() + b"\n"


def test_a_watch_yields_events_whatever_the_pieces(fake: FakeApi, api: KubernetesApi) -> None:
    whole = event("ADDED", n=1) + event("BOOKMARK", n=2) + event("MODIFIED", n="x" * 90000)
    fake.streams[PODS] = [whole[:7], whole[7:60], whole[60:70000], whole[70000:]]

    seen = list(api.watch("Pod", resource_version="5", timeout_s=5))

    assert [kind for kind, _ in seen] == ["ADDED", "BOOKMARK", "MODIFIED"]


def test_a_watch_from_too_old_a_version_says_so(fake: FakeApi, api: KubernetesApi) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    fake.streams[PODS] = [event("ERROR", **status)]

    with pytest.raises(KubernetesError, match="too old") as caught:
        list(api.watch("Pod", resource_version="5", timeout_s=5))

    assert caught.value.is_expired


def test_a_watch_that_breaks_off_is_unreachable_after_its_events(
    fake: FakeApi, api: KubernetesApi
) -> None:
    fake.streams[PODS] = [event("ADDED", n=1), b"..."]
    watch = api.watch("Pod", resource_version="5", timeout_s=5)

    assert next(watch) == ("ADDED", {"n": 1})
    with pytest.raises(UnreachableError):
        next(watch)


def test_a_log_comes_as_bytes(fake: FakeApi, api: KubernetesApi) -> None:
    fake.streams[f"{PODS}/p/log"] = [b"one\ntw\xff", b"o\r\0\n"]

    assert b"".join(api.pod_log("p", container="main", tail=5)) == b"one\ntw\xffo\r\0\n"


def test_a_pods_own_server_answers_through_the_api(fake: FakeApi, api: KubernetesApi) -> None:
    fake.streams[f"{PODS}/files-0:8080/proxy/files/run-1/a%20b.log"] = [b"hello"]

    response = api.proxy("files-0", 8080, "files/run-1/a b.log", headers={"Range": "bytes=0-"})

    assert response.read() == b"hello"


def test_an_error_on_the_way_to_a_pods_server_is_the_apis(
    fake: FakeApi, api: KubernetesApi
) -> None:
    with pytest.raises(KubernetesError) as caught:
        api.proxy("gone", 8080, "x")

    assert caught.value.status == 404


def test_what_the_api_serves_is_told(fake: FakeApi, api: KubernetesApi) -> None:
    fake.put("/apis/jobset.x-k8s.io/v1alpha2", {"resources": [{"kind": "JobSet"}]})
    fake.put("/version", {"gitVersion": "v1.37.2"})

    assert api.serves("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert not api.serves("jobset.x-k8s.io/v1alpha2", "Other")
    assert not api.serves("absent.io/v1", "JobSet")
    assert api.server_version() == "v1.37.2"


def test_every_kind_has_a_path_of_its_own() -> None:
    paths = {kind.path("lab", "x") for kind in KINDS.values()}

    assert len(paths) == len(KINDS)
    assert KINDS["Job"].path("lab", "x") == f"{JOBS}/x"
    assert KINDS["Node"].path("lab") == "/api/v1/nodes"
    assert KINDS["JobSet"].resource == "jobsets.jobset.x-k8s.io"
    assert KINDS["Pod"].resource == "pods"
