"""Jobs of a gang go to the API as they are; the plugin's Go types do not know their gang."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from infra.k8s.gang_job import GangJobProvider, is_of_a_gang, whole_numbers
from policies import rules
from runtime.cluster import KubernetesConnection
from runtime.errors import RunStateError, StackError
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_record import ClusterRecord
from runtime.states import RunState
from tests.infra.k8s.placing import manifests, profile
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api

GANG = {"gang_api": "scheduling.k8s.io/v1beta1"}
PATH = "/apis/batch/v1/namespaces/team/jobs/run-123-1-trainer-0"
DYNAMIC = "pulumi-python:dynamic/paddock/k8s:GangJob"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with serve_fake_api(tmp_path) as (made, _api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield made


def props() -> dict[str, Any]:
    """Return the inputs of the trainer's Job as the engine hands them over."""
    found = manifests(profile=profile(offer=GANG)).jobs
    (trainer,) = [one for one in found if "trainer" in one["metadata"]["name"]]
    return {"context": "fake", "namespace": "team", **floats(trainer)}


def floats(value: Any) -> Any:  # noqa: ANN401 - JSON values
    if isinstance(value, dict):
        return {key: floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def test_only_jobs_of_a_gang_are_made_this_way() -> None:
    gang, plain = manifests(profile=profile(offer=GANG)), manifests()

    assert all(is_of_a_gang(one) for one in gang.jobs)
    assert not any(is_of_a_gang(one) for one in [*plain.workloads, *plain.before, *gang.before])


def test_the_job_arrives_with_its_gang_and_with_whole_numbers(fake: FakeApi) -> None:
    provider = GangJobProvider()

    made = provider.create(props())

    spec = fake.objects[PATH]["spec"]
    assert made.id == "team/run-123-1-trainer-0"
    assert spec["template"]["spec"]["schedulingGroup"] == {"podGroupName": "run-123-1"}
    assert repr(spec["completions"]) == "1"
    assert spec == whole_numbers(props()["spec"])
    assert set(fake.objects[PATH]) == {"apiVersion", "kind", "metadata", "spec"}


def test_a_job_that_a_killed_up_has_made_is_the_runs_own(fake: FakeApi) -> None:
    provider = GangJobProvider()
    provider.create(props())

    again = provider.create(props())

    assert again.id == "team/run-123-1-trainer-0"


def test_a_job_of_somebody_else_is_not_taken_over(fake: FakeApi) -> None:
    fake.put(PATH, {"metadata": {"name": "run-123-1-trainer-0", "labels": {"owner": "team"}}})

    with pytest.raises(StackError, match="is not of this attempt"):
        GangJobProvider().create(props())


def test_no_job_is_made_for_a_run_that_is_over(fake: FakeApi) -> None:
    connection = KubernetesConnection(context="fake", namespace="team")
    with closing(KubernetesApi.connect(connection)) as api:
        record = ClusterRecord(api, "run-123")
        record.begin_attempt(config_digest="d", attempt=1)
        record.advance(RunState.STOPPED, attempt=1, reason="stopped by hand")

    with pytest.raises(RunStateError, match="attempt 1 is over"):
        GangJobProvider().create(props())

    assert PATH not in fake.objects


def test_a_changed_job_is_another_one_and_a_deleted_one_is_gone(fake: FakeApi) -> None:
    provider, before = GangJobProvider(), props()
    after = {**before, "spec": {**before["spec"], "completions": 2.0}}

    assert provider.diff("id", before, before).changes is False
    assert provider.diff("id", before, after).replaces == ["spec"]
    assert provider.read("id", before).id == ""
    provider.create(before)
    assert provider.read("id", before).id == "id"
    provider.delete("id", before)
    provider.delete("id", before)
    assert PATH not in fake.objects


def test_the_policies_see_a_job_in_it() -> None:
    inputs = props()
    env = inputs["spec"]["template"]["spec"]["containers"][0]["env"]
    env.append({"name": "API_KEY", "value": "in clear"})
    del inputs["metadata"]["labels"]["paddock.dev/run"]
    spec = rules.Subject(
        urn="spec", type=rules.RUN_SPEC, stack="run-123", props={"runId": "run-123", "attempt": 1}
    )
    subject = rules.Subject(urn="job", type=DYNAMIC, stack="run-123", props=inputs)

    assert any("API_KEY" in one for one in rules.no_literal_credential(subject, {}))
    assert [urn for _, urn in rules.run_labels([spec, subject])] == ["job"]
