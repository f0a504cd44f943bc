"""Names of a run's objects, for any run id and any source name: case 17 of what others have met."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.k8s.job_groups import job_groups
from infra.k8s.placed import Manifest
from runtime import naming, pod_names
from runtime.errors import RefusedError
from runtime.launch.components import Component, build_components
from runtime.plan import RolePlan
from tests.infra.k8s.placing import NODE_CLASS, everything, manifests, placed, profile

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
RANDOM_SUFFIX = "-abcde"  # of a pod's name
RUN_IDS = st.from_regex(naming.RUN_ID_PATTERN, fullmatch=True).filter(naming.is_run_id)
SOURCES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1, max_size=200
)
LONGEST = "r" * 53


def components(*roles: RolePlan) -> tuple[Component, ...]:
    """Return the components of a plan with these roles."""
    return build_components(replace(placed().plan, roles=roles))


def source(name: str, *, split: str = "train", index: int = 0) -> RolePlan:
    """Return the role of an env server."""
    return RolePlan(role=naming.ENV_SERVER, split=split, source=name, index=index)


def replicas(number: int) -> RolePlan:
    """Return inference of so many replicas of two nodes."""
    return RolePlan(role=naming.INFERENCE, num_pods=number * 2, gpus_per_pod=8, pods_per_replica=2)


@given(run_id=RUN_IDS, attempt=st.integers(1, 9999), name=SOURCES)
@example(run_id=LONGEST, attempt=9999, name="\U0001f600" * 200)
@example(run_id="a--", attempt=1, name="-")
def test_every_pod_has_a_name_that_dns_takes(run_id: str, attempt: int, name: str) -> None:
    trainer = RolePlan(role=naming.TRAINER, num_pods=99, gpus_per_pod=8)
    found = components(trainer, replicas(99), source(name), source(name, split="eval", index=1))

    for component in found:
        job = pod_names.job_name(run_id, attempt, component)
        pod = pod_names.host_name(run_id, attempt, component)
        assert DNS_1035.fullmatch(job)
        assert DNS_1035.fullmatch(pod)
        assert pod == f"{job}-{pod_names.pod_index(component)}"
        assert len(pod + RANDOM_SUFFIX) <= 63


@given(st.lists(SOURCES, min_size=2, max_size=8, unique=True))
@example(["math", "Math", "MATH", "m\u00e4th", "m th", "m-th", "m_th", "\U0001f600", "\U0001f601"])
@example(["x" * 199 + "1", "x" * 199 + "2"])
def test_no_two_sources_share_a_pod(names: list[str]) -> None:
    found = components(*(source(name, index=index) for index, name in enumerate(names)))

    assert len({group.name for group in job_groups(found)}) == len(names)


def test_a_source_named_as_the_slug_of_another_is_refused() -> None:
    taken = naming.slug("Math", 40)

    with pytest.raises(RefusedError, match="rename one of the sources"):
        job_groups(components(source("Math"), source(taken, index=1)))


def test_train_and_eval_of_one_source_are_two_pods() -> None:
    found = components(source("math"), source("math", split="eval", index=1))

    assert [group.name for group in job_groups(found)] == ["env-train-math", "env-eval-math"]


def test_attempts_and_runs_share_no_object() -> None:
    first, second = manifests(run_id="run-1"), manifests(run_id="run-1", attempt=2)
    other = manifests(run_id="run-1-2")

    names = [{item["metadata"]["name"] for item in everything(each)} for each in (first, second)]
    assert not names[0] & names[1]
    assert not names[1] & {item["metadata"]["name"] for item in everything(other)}


@given(run_id=RUN_IDS)
@example(run_id=LONGEST)
def test_every_name_and_label_is_one_that_kubernetes_takes(run_id: str) -> None:
    cluster = profile(offer={"node_class": NODE_CLASS, "gang_api": "scheduling.k8s.io/v1beta1"})
    found = manifests("disaggregated", run_id=run_id, profile=cluster)

    for item in everything(found):
        assert DNS_1035.fullmatch(item["metadata"]["name"])
        assert len(item["metadata"]["name"]) <= 63
        for labels in _labels(item):
            for value in labels.values():
                assert len(value) <= 63
                assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", value)


def _labels(value: object) -> Iterator[Manifest]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in {"labels", "matchLabels", "selector"}:
                yield item
            else:
                yield from _labels(item)
    elif isinstance(value, list):
        for item in value:
            yield from _labels(item)
