"""The model cache of a cluster: its list, and the download as a Job whose pod does as told."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from runtime import kubernetes_models
from runtime.cluster import ClusterProfile
from runtime.errors import NotFoundError, StackError
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_model_job import ModelRequest, job_name, model_job, token_secret
from runtime.kubernetes_models import add_model, cached_models, enter_model, waiting_words
from runtime.kubernetes_probes import num_cached_models
from runtime.kubernetes_profile import adopt_cluster
from tests.runtime.kubernetes.fake_api import FakeApi
from tests.runtime.kubernetes.test_profile import FOUND, settings

NAMESPACE = "/api/v1/namespaces/lab"
CANARY = "hf_canary"
POD = f"{NAMESPACE}/pods/pod-1"
LOG = f"{POD}/log"
DONE = {"terminated": {"exitCode": 0, "message": '{"commit": "abc123"}'}}
FETCHED = {"containerStatuses": [{"name": "main", "state": DONE}]}


def profile(**values: Any) -> ClusterProfile:  # noqa: ANN401 - values of any setting
    given = settings(**{"models_volume_size": "1Ti", **values})
    return adopt_cluster("lab", given, FOUND).profile


def request(**values: Any) -> ModelRequest:  # noqa: ANN401 - fields of a request
    return ModelRequest(**{"model": "acme/tiny", "image": "prime-rl:main", **values})


def pod(phase: str, **status: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a pod's status
    return {"metadata": {}, "status": {"phase": phase, **status}}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between two looks."""
    monkeypatch.setattr(kubernetes_models, "_POLL_S", 0.01)


def on_create_of_the_job(fake: FakeApi, act: Callable[[str], None]) -> None:
    """Let the controller act, once, when it sees the Job."""
    seen: list[str] = []

    def react(method: str, path: str) -> None:
        jobs = fake.paths("/jobs/")
        if jobs and not seen:
            seen.append(jobs[0])
            act(jobs[0].rpartition("/")[2])

    fake.on_change = react


def make_pod(fake: FakeApi, found: dict[str, Any]) -> Callable[[str], None]:
    """Return what puts a pod of the Job there."""

    def act(job: str) -> None:
        labels = {"batch.kubernetes.io/job-name": job}
        fake.put(POD, {**found, "metadata": {"labels": labels}})

    return act


@pytest.mark.parametrize("text", ["{", "[]", '{"acme/tiny": "abc"}'])
def test_a_list_that_a_person_broke_is_named_and_kept(
    api: KubernetesApi, fake: FakeApi, text: str
) -> None:
    broken = {"metadata": {"name": "paddock-models"}, "data": {"models.json": text}}
    fake.put(f"{NAMESPACE}/configmaps/paddock-models", broken)

    with pytest.raises(StackError, match=r"models\.json is no JSON object"):
        enter_model(api, "acme/tiny", revision=None, commit="abc")

    assert fake.objects[f"{NAMESPACE}/configmaps/paddock-models"]["data"]["models.json"] == text
    assert num_cached_models(api)[0] is None


def test_an_empty_cache_has_no_models(api: KubernetesApi) -> None:
    assert cached_models(api) == {}


def test_models_are_listed_as_they_were_entered(api: KubernetesApi) -> None:
    enter_model(api, "b/two", revision=None, commit="222")
    enter_model(api, "a/one", revision="v1", commit="111")
    enter_model(api, "a/one", revision="v2", commit="112")

    assert cached_models(api) == {"a/one": "112", "b/two": "222"}


def test_a_list_that_somebody_else_changed_in_between_loses_nothing(
    api: KubernetesApi, fake: FakeApi
) -> None:
    enter_model(api, "a/one", revision=None, commit="111")
    fake.fail("PUT", "configmaps", 409, reason="Conflict", message="modified")

    enter_model(api, "b/two", revision=None, commit="222")

    assert cached_models(api) == {"a/one": "111", "b/two": "222"}


@pytest.mark.usefixtures("quick")
def test_a_download_is_said_line_by_line_and_entered(api: KubernetesApi, fake: FakeApi) -> None:
    on_create_of_the_job(fake, make_pod(fake, pod("Succeeded", **FETCHED)))
    fake.streams[LOG] = [b"0.10 GiB are there\n0.2", b"0 GiB are there\n"]
    said: list[str] = []

    commit = add_model(api, profile(), request(token=CANARY), say=said.append)

    assert commit == "abc123"
    assert said == ["0.10 GiB are there", "0.20 GiB are there"]
    assert cached_models(api) == {"acme/tiny": "abc123"}
    assert fake.paths("/jobs/") == []
    assert fake.paths("/secrets/") == []


@pytest.mark.usefixtures("quick")
def test_a_log_that_breaks_off_is_taken_up_where_it_was(api: KubernetesApi, fake: FakeApi) -> None:
    on_create_of_the_job(fake, make_pod(fake, pod("Running")))
    fake.streams[LOG] = [b"first\n", b"..."]
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:  # the first line, and that the connection broke
            fake.put(POD, {**fake.objects[POD], **pod("Succeeded", **FETCHED), "metadata": {}})
            fake.streams[LOG] = [b"first\nsecond\n"]

    commit = add_model(api, profile(), request(), say=say)

    assert commit == "abc123"
    assert [line for line in said if line in {"first", "second"}] == ["first", "second"]


@pytest.mark.usefixtures("quick")
def test_a_download_that_fails_says_so_in_its_own_words_and_is_cleaned_up(
    api: KubernetesApi, fake: FakeApi
) -> None:
    ended = {"terminated": {"exitCode": 1, "message": "acme/tiny cannot be fetched: gated"}}
    statuses = [{"name": "main", "state": ended}]
    on_create_of_the_job(fake, make_pod(fake, pod("Failed", containerStatuses=statuses)))
    fake.streams[LOG] = [b"acme/tiny cannot be fetched: gated\n"]

    with pytest.raises(StackError, match=r"cannot be fetched: gated \(exit code 1\)"):
        add_model(api, profile(), request(token=CANARY), say=lambda _: None)

    assert fake.paths("/jobs/") == fake.paths("/secrets/") == []
    assert cached_models(api) == {}


@pytest.mark.usefixtures("quick")
def test_a_download_whose_log_is_gone_is_entered_all_the_same(
    api: KubernetesApi, fake: FakeApi
) -> None:
    on_create_of_the_job(fake, make_pod(fake, pod("Succeeded", **FETCHED)))

    assert add_model(api, profile(), request(), say=lambda _: None) == "abc123"


@pytest.mark.usefixtures("quick")
def test_an_image_that_cannot_be_pulled_ends_the_wait(
    api: KubernetesApi, fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_models, "_BAD_IMAGE_WITHIN_S", 0.1)
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}
    statuses = [{"name": "main", "state": waiting}]
    on_create_of_the_job(fake, make_pod(fake, pod("Pending", containerStatuses=statuses)))
    said: list[str] = []

    with pytest.raises(StackError, match="did not start: ImagePullBackOff: no such tag"):
        add_model(api, profile(), request(), say=said.append)

    assert said == ["ImagePullBackOff: no such tag"]


def test_a_cluster_without_a_cache_says_how_to_get_one(api: KubernetesApi) -> None:
    with pytest.raises(NotFoundError, match="paddock:modelsVolumeSize"):
        add_model(api, profile(models_volume_size=None), request(), say=lambda _: None)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({}, ("", "")),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            ("", ""),
        ),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes",
                    }
                ]
            },
            ("Unschedulable", "not placed: 0/1 nodes"),
        ),
    ],
)
def test_a_pods_waiting_has_words(status: dict[str, Any], words: tuple[str, str]) -> None:
    assert waiting_words({"status": status}) == words


def test_the_token_is_in_the_secret_alone() -> None:
    given = request(token=CANARY, endpoint="http://hub/$(HOME)")
    job = model_job("job-1", given, profile())

    secret = token_secret({**job, "metadata": {**job["metadata"], "uid": "u"}}, CANARY)

    assert CANARY not in json.dumps(job)
    assert CANARY not in repr(given)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "u"
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["envFrom"] == [{"secretRef": {"name": "job-1"}}]
    assert {"name": "HF_ENDPOINT", "value": "http://hub/$$(HOME)"} in container["env"]


def test_a_download_without_a_token_names_no_secret() -> None:
    container = model_job("j", request(), profile())["spec"]["template"]["spec"]["containers"][0]

    assert "envFrom" not in container


@pytest.mark.parametrize("model", ["acme/tiny", "Qwen/Qwen3-0.6B", "x" * 200, "7/7"])
def test_job_names_fit_pods_and_differ(model: str) -> None:
    names = {job_name(model) for _ in range(3)}

    assert len(names) == 3
    assert all(len(name) + len("-abcde") <= 63 and name[0].isalpha() for name in names)
