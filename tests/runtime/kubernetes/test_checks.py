"""What doctor says: a verdict a check, how to mend what fails, and what makes a cluster fit."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.cluster_settings import KubernetesClusterSettings
from runtime.kubernetes_checks import (
    Check,
    Probes,
    Verdict,
    cluster_checks,
    is_fit,
    unreachable_check,
)
from runtime.kubernetes_discovery import Discovery, StorageClassFact
from tests.runtime.kubernetes.test_offers import node
from tests.runtime.kubernetes.test_profile import FOUND, claim, settings

PROBES = Probes(
    stack="lab",
    missing_access={"runs": (), "nodes": (), "cluster stack": ()},
    files=None,
    num_models=2,
    image_notice="",
    has_plugin=True,
)
UP = replace(
    FOUND,
    namespace_phase="Active",
    nodes=(node("n0", allocatable={"rdma/ib": "1"}), node("n1", allocatable={"rdma/ib": "1"})),
    claims={"paddock-runs": claim("paddock-runs"), "paddock-models": claim("paddock-models")},
)
GIVEN = settings(models_volume_size="1Ti", models=("a/b",))


def checks(
    given: KubernetesClusterSettings = GIVEN,
    found: Discovery = UP,
    **probes: Any,  # noqa: ANN401 - fields of Probes
) -> dict[str, Check]:
    """Return the checks by name."""
    return {one.name: one for one in cluster_checks(given, found, replace(PROBES, **probes))}


def test_a_cluster_that_is_up_is_fit_and_has_nothing_to_mend() -> None:
    found = checks()

    assert is_fit(tuple(found.values()))
    assert [one for one in found.values() if one.mend] == []
    assert found["GPUs: H200_141GB"].detail == "16 (2 nodes of 8)"
    assert found["RDMA: H200_141GB"].detail == "rdma/ib x 1"
    assert found["model cache"].detail == "claim paddock-models, 3 models"
    assert found["Kueue"].verdict is Verdict.ABSENT


def test_a_cluster_before_its_first_up_is_fit_and_says_what_up_makes() -> None:
    found = checks(found=FOUND, files="no pod of it runs", num_models=None)

    assert is_fit(tuple(found.values()))
    for name in ("namespace", "run volume", "model cache"):
        assert found[name].verdict is Verdict.WARNING
        assert found[name].mend == "pulumi up -s lab makes it"


@pytest.mark.parametrize(
    ("changes", "name", "said"),
    [
        ({"version": "v1.27.3-eks-1"}, "version", "1.28 or newer is needed"),
        ({"version": "unknown"}, "version", "1.28 or newer is needed"),
        ({"namespace_phase": "Terminating"}, "namespace", "shows what holds it"),
        ({"nodes": ()}, "no_gpus", "check the GPU operator"),
        (
            {
                "claims": {},
                "storage_classes": (
                    StorageClassFact(name="slow", is_default=False, is_late=False),
                ),
            },
            "run volume",
            "set paddock:storageClass",
        ),
    ],
)
def test_what_is_required_and_missing_makes_a_cluster_unfit(
    changes: dict[str, Any], name: str, said: str
) -> None:
    found = checks(found=replace(UP, **changes))

    assert not is_fit(tuple(found.values()))
    assert found[name].verdict is Verdict.MISSING
    assert said in found[name].mend


def test_newer_and_vendors_versions_are_read() -> None:
    for version in ("v1.28.0", "v1.37.2", "v1.31.4-gke.1183000", "v2.0.0"):
        assert checks(found=replace(UP, version=version))["version"].verdict is Verdict.OK


def test_a_right_that_runs_need_is_required_and_others_are_not() -> None:
    few = {"runs": ("create jobs.batch",), "nodes": (), "cluster stack": ()}
    many = {"runs": (), "nodes": (), "cluster stack": tuple(f"verb {n}" for n in range(9))}

    unfit, fit = checks(missing_access=few), checks(missing_access=many)

    assert unfit["access: runs"].verdict is Verdict.MISSING
    assert unfit["access: runs"].detail == "not allowed: create jobs.batch"
    assert "paddock-operator" in unfit["access: runs"].mend
    assert fit["access: cluster stack"].verdict is Verdict.WARNING
    assert fit["access: cluster stack"].detail.endswith("and 3 more")


@pytest.mark.parametrize(
    ("probes", "name", "said"),
    [
        ({"files": "no pod of it runs"}, "file server", "describe deployment paddock-files"),
        ({"image_notice": "image x has no digest"}, "image", "check paddock:image"),
        ({"models_trouble": "ConfigMap x"}, "model cache", "ConfigMap x"),
        ({"has_plugin": False}, "Pulumi's plugin", "make setup-kubernetes"),
    ],
)
def test_what_only_hampers_is_a_warning_with_its_remedy(
    probes: dict[str, Any], name: str, said: str
) -> None:
    found = checks(**probes)

    assert is_fit(tuple(found.values()))
    assert found[name].verdict is Verdict.WARNING
    assert said in found[name].mend


def test_many_nodes_without_rdma_are_slow_and_one_is_not() -> None:
    nodes = tuple(node(f"n{index}") for index in range(2))

    several = checks(found=replace(UP, nodes=nodes))
    one = checks(found=replace(UP, nodes=nodes[:1]))

    assert "over TCP" in several["RDMA: H200_141GB"].detail
    assert "RDMA: H200_141GB" not in one


def test_no_model_cache_is_said_with_its_setting() -> None:
    found = checks(given=settings())

    assert "paddock:modelsVolumeSize" in found["model cache"].mend


def test_a_volume_of_one_node_has_no_file_server() -> None:
    only = {"paddock-runs": claim("paddock-runs", is_shared=False)}

    found = checks(given=settings(), found=replace(UP, claims=only), files="no pod of it runs")

    assert found["run volume"].verdict is Verdict.WARNING
    assert found["file server"].verdict is Verdict.ABSENT


def test_kueue_without_jobset_is_warned_about_where_it_is_used() -> None:
    kueue = replace(UP, queue_api="kueue.x-k8s.io/v1beta2", queues=("runs",))

    assert "JobSet" in checks(given=settings(queue="runs"), found=kueue)["queue"].mend
    assert "queue" not in checks(found=kueue)


def test_a_cluster_that_does_not_answer_is_unfit_with_one_check() -> None:
    check = unreachable_check(settings(), "no connection")

    assert not is_fit((check,))
    assert "kubectl --context lab" in check.mend
