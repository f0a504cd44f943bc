"""The rules of the policy pack on plain values, without Pulumi."""

from typing import Any

import pytest

from infra.local.files import RunFiles
from infra.local.folder import LocalVolume
from infra.local.process import LocalProcess
from infra.run_spec import RunSpec
from policies import rules
from policies.manifests import UNKNOWN
from policies.rules import Subject
from runtime import naming
from runtime.credentials import is_credential_name

POD = "kubernetes:batch/v1:Job"
LABELS = naming.run_labels("run-123", 1, "trainer-0")


def subject(type_: str, props: dict[str, Any], *depends_on: str, **over: object) -> Subject:
    values = {"urn": type_, "type": type_, "stack": "run-123", "props": props, **over}
    return Subject(depends_on=frozenset(depends_on), **values)


def run_spec(**over: object) -> Subject:
    return subject(rules.RUN_SPEC, {"runId": "run-123", "attempt": 1.0, "numGpus": 8.0, **over})


def job(*, env: object = (), labels: object = LABELS, pod_labels: object = LABELS) -> Subject:
    pod = {"containers": [{"name": "main", "env": env}]}
    template = {"metadata": {"labels": pod_labels}, "spec": pod}
    props = {"metadata": {"labels": labels}, "spec": {"template": template}}
    return subject(POD, props, rules.RUN_SPEC)


def test_the_types_are_those_of_the_program() -> None:
    resources = (RunSpec, RunFiles, LocalProcess)

    tokens = tuple(f"pulumi-python:{item._resource_type_name}" for item in resources)

    assert tokens == rules.OF_A_RUN
    assert f"pulumi-python:{LocalVolume._resource_type_name}" in rules.VOLUMES


@pytest.mark.parametrize(
    ("num_gpus", "config", "passes"),
    [
        (64.0, {}, True),
        (65.0, {}, False),
        (8.0, {"maxGpusPerRun": 8}, True),
        (9.0, {"maxGpusPerRun": 8}, False),
        (65.0, {"maxGpusPerRun": 100}, False),
        (UNKNOWN, {}, False),
        (None, {}, False),
        (True, {}, False),
        ("64", {}, False),
    ],
)
def test_a_run_has_a_known_number_of_gpus_up_to_the_cap(
    num_gpus: object, config: dict[str, Any], passes: bool
) -> None:
    messages = list(rules.gpu_cap(run_spec(numGpus=num_gpus), config))

    assert (messages == []) is passes


@pytest.mark.parametrize("type_", rules.OF_A_RUN)
@pytest.mark.parametrize(
    ("run_id", "attempt", "num_messages"),
    [
        ("run-123", 1.0, 0),
        ("run-124", 1.0, 1),
        (UNKNOWN, 1.0, 1),
        ("run-123", UNKNOWN, 1),
        ("run-123", 0.0, 1),
        (None, None, 2),
    ],
)
def test_a_resource_of_a_run_names_its_stack_and_an_attempt(
    type_: str, run_id: object, attempt: object, num_messages: int
) -> None:
    props = {"runId": run_id, "attempt": attempt}

    messages = list(rules.run_identity(subject(type_, props), {}))

    assert len(messages) == num_messages


@pytest.mark.parametrize("type_", rules.VOLUMES)
def test_a_volume_is_protected(type_: str) -> None:
    bare = list(rules.volume_protected(subject(type_, {}), {}))
    protected = list(rules.volume_protected(subject(type_, {}, is_protected=True), {}))

    assert len(bare) == 1
    assert protected == []


@pytest.mark.parametrize(
    ("name", "is_credential"),
    [
        ("HF_TOKEN", True),
        ("WANDB_API_KEY", True),
        ("PGPASSWORD", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("githubPat", False),
        ("GITHUB_PAT", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("MAX_TOKENS", False),
        ("KEYWORD", False),
        ("CREDENTIALS_FILE", False),
        ("OMP_NUM_THREADS", False),
    ],
)
def test_names_of_credentials_are_told_from_others(name: str, is_credential: bool) -> None:
    assert is_credential_name(name) is is_credential


@pytest.mark.parametrize(
    ("env", "passes"),
    [
        ([{"name": "OMP_NUM_THREADS", "value": "1"}], True),
        ([{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}], True),
        ([{"name": "HF_TOKEN", "value": "hunter2"}], False),
        ([{"name": "HF_TOKEN", "value": UNKNOWN}], False),
        ([{"name": UNKNOWN, "value": "hunter2"}], False),
        ([UNKNOWN], False),
        (UNKNOWN, False),
    ],
)
def test_a_pod_has_no_literal_credential(env: object, passes: bool) -> None:
    messages = list(rules.no_literal_credential(job(env=env), {}))

    assert (messages == []) is passes
    assert "hunter2" not in "".join(messages)


@pytest.mark.parametrize(
    ("data", "passes"),
    [({"rl.toml": ""}, True), ({"HF_TOKEN": "hunter2"}, False), (UNKNOWN, False)],
)
def test_a_config_map_has_no_credential(data: object, passes: bool) -> None:
    messages = list(rules.no_literal_credential(subject(rules.CONFIG_MAP, {"data": data}), {}))

    assert (messages == []) is passes


def test_a_run_without_its_run_spec_is_refused() -> None:
    files = subject(rules.OF_A_RUN[1], {"runId": "run-123", "attempt": 1.0})

    assert [urn for _, urn in rules.one_run_spec([files])] == [files.urn]
    assert list(rules.one_run_spec([run_spec(), files])) == []


def test_a_second_attempt_in_one_stack_is_refused() -> None:
    process = subject(rules.OF_A_RUN[2], {"runId": "run-123", "attempt": 2.0})

    assert [urn for _, urn in rules.one_run_spec([run_spec(), process])] == [process.urn]


def test_a_run_stack_owns_no_storage() -> None:
    volume = subject(rules.VOLUMES[0], {}, is_protected=True)

    assert [urn for _, urn in rules.one_run_spec([run_spec(), volume])] == [volume.urn]
    assert list(rules.one_run_spec([volume])) == []


@pytest.mark.parametrize(
    ("labels", "pod_labels", "num_messages"),
    [
        (LABELS, LABELS, 0),
        ({}, LABELS, 1),
        (LABELS, {**LABELS, naming.LABEL_RUN: "run-124"}, 1),
        (LABELS, {**LABELS, naming.LABEL_COMPONENT: UNKNOWN}, 1),
        ({**LABELS, naming.LABEL_ATTEMPT: "2"}, UNKNOWN, 2),
    ],
)
def test_objects_and_pod_templates_carry_the_labels_of_their_run(
    labels: object, pod_labels: object, num_messages: int
) -> None:
    workload = job(labels=labels, pod_labels=pod_labels)

    messages = list(rules.run_labels([run_spec(), workload]))

    assert len(messages) == num_messages
    assert list(rules.run_labels([workload])) == []  # no run's stack


def test_everything_of_a_run_depends_on_its_run_spec() -> None:
    direct = subject(rules.OF_A_RUN[1], {}, rules.RUN_SPEC)
    through_another = subject(rules.OF_A_RUN[2], {}, direct.urn)
    loose = subject("kubernetes:core/v1:Service", {})
    exempt = [subject("pulumi:pulumi:Stack", {}), subject("paddock:local:Run", {})]

    found = rules.depends_on_run_spec([run_spec(), direct, through_another, loose, *exempt])

    assert [urn for _, urn in found] == [loose.urn]
