"""The profile of an adopted cluster, and what is refused before anything is declared."""

from dataclasses import replace
from typing import Any

import pytest

from runtime.cluster import KubernetesConnection, Toleration, parse_profile
from runtime.cluster_settings import KubernetesClusterSettings
from runtime.errors import SettingsError
from runtime.kubernetes_discovery import ClaimFact, Discovery, StorageClassFact
from runtime.kubernetes_profile import adopt_cluster, wanted
from tests.runtime.kubernetes.test_offers import node

FOUND = Discovery(
    version="v1.37.2",
    namespace_phase="",
    nodes=(node("n0"), node("n1")),
    storage_classes=(StorageClassFact(name="fast", is_default=True, is_late=False),),
    claims={},
    queue_api=None,
    queues=(),
    jobset=False,
    gang_api=None,
    has_karpenter=False,
    has_priority_class=True,
    unread=(),
)
KUEUE = replace(FOUND, queue_api="kueue.x-k8s.io/v1beta2", queues=("runs",), jobset=True)


def settings(**values: Any) -> KubernetesClusterSettings:  # noqa: ANN401 - values of any setting
    return KubernetesClusterSettings(
        kind="cluster", target="kubernetes", **{"context": "lab", **values}
    )


def claim(name: str, *, is_shared: bool = True, is_leaving: bool = False) -> ClaimFact:
    return ClaimFact(name=name, phase="Bound", is_shared=is_shared, is_leaving=is_leaving)


def refused(given: KubernetesClusterSettings, found: Discovery) -> str:
    with pytest.raises(SettingsError) as caught:
        adopt_cluster("lab", given, found)
    return str(caught.value)


def test_a_plain_cluster_has_claims_and_a_file_server() -> None:
    adopted = adopt_cluster("lab", settings(), FOUND)

    profile = adopted.profile
    assert profile.connection == KubernetesConnection(context="lab", namespace="paddock")
    assert profile.runs_path == "runs"
    assert profile.shared_storage
    assert profile.gpus[0].num_gpus == 16
    offer = profile.kubernetes
    assert offer is not None
    assert (offer.run_claim, offer.models_claim) == ("paddock-runs", None)
    assert offer.files is not None
    assert offer.files.secret == "paddock-files"
    assert adopted.remarks == ()


def test_the_profile_is_read_back_as_it_was_exported() -> None:
    given = settings(
        tolerations=(Toleration(key="dedicated"),), models_volume_size="100Gi", image="mirror/rl"
    )
    profile = adopt_cluster("lab", given, KUEUE).profile

    assert parse_profile(profile.model_dump(mode="json"), cluster="lab") == profile
    assert profile.kubernetes is not None
    assert profile.kubernetes.models_claim == "paddock-models"
    assert profile.kubernetes.jobset


def test_a_claim_of_one_node_has_no_file_server_and_is_not_shared() -> None:
    found = replace(FOUND, claims={"mine": claim("mine", is_shared=False)})

    adopted = adopt_cluster("lab", settings(run_volume_claim="mine"), found)

    assert not adopted.profile.shared_storage
    assert adopted.profile.kubernetes is not None
    assert adopted.profile.kubernetes.files is None
    assert "claim mine is not ReadWriteMany" in adopted.remarks[0]


def test_what_may_not_be_read_is_said_and_refuses_nothing() -> None:
    found = replace(FOUND, storage_classes=None, unread=("not allowed to list storageclasses",))

    adopted = adopt_cluster("lab", settings(storage_class="slow"), found)

    assert adopted.remarks == ("not allowed to list storageclasses",)
    assert adopted.profile.kubernetes is not None
    assert adopted.profile.kubernetes.storage_class == "slow", "volume stacks go by it"


def test_gpus_without_a_node_are_offered_as_the_settings_say() -> None:
    offers = '[{"name": "B200_180GB", "num_nodes": 4, "gpus_per_node": 8, "price_usd_per_hour": 5}]'
    found = replace(FOUND, nodes=(), has_karpenter=True)
    node_class = '{"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}'

    profile = adopt_cluster(
        "lab", settings(gpu_offers=offers, node_class=node_class), found
    ).profile

    assert [offer.name for offer in profile.gpus] == ["B200_180GB"]
    assert profile.kubernetes is not None
    assert profile.kubernetes.node_class is not None


@pytest.mark.parametrize(
    ("values", "changes", "said"),
    [
        ({}, {"namespace_phase": "Terminating"}, "namespace paddock is being deleted"),
        ({}, {"owner": "other"}, "namespace paddock is that of cluster stack other"),
        ({}, {"nodes": None}, "nodes may not be listed"),
        ({}, {"nodes": ()}, "offers no GPU to runs: 0 nodes, none with GPUs"),
        ({}, {"nodes": (node(product="NVIDIA-L40S"),)}, "no known type: nvidia.com/gpu.product="),
        ({"run_volume_claim": "x"}, {}, "paddock:runVolumeClaim: namespace paddock has no claim x"),
        ({"models_volume_claim": "x"}, {}, "paddock:modelsVolumeClaim: namespace paddock has no"),
        ({"files_claims": ("x",)}, {}, "paddock:filesClaims: namespace paddock has no claim x"),
        (
            {},
            {"claims": {"paddock-runs": claim("paddock-runs", is_leaving=True)}},
            "paddock:runVolumeSize: claim paddock-runs is being deleted",
        ),
        ({"storage_class": "slow"}, {}, "there is no StorageClass slow; there is: fast"),
        ({"queue": "runs"}, {}, "the cluster does not serve Kueue"),
        ({"cluster_queue": "all"}, {}, "needs paddock:queue"),
        ({"own_cluster_queue": True}, {}, "needs paddock:clusterQueue"),
        ({"priority_class": "high"}, {"has_priority_class": False}, "no PriorityClass high"),
        ({"priority_value": 5}, {}, "needs paddock:priorityClass"),
        (
            {"node_class": '{"group": "g", "kind": "k", "name": "n"}'},
            {},
            "does not serve karpenter.sh/v1",
        ),
    ],
)
def test_what_keeps_runs_from_starting_is_refused(
    values: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    assert said in refused(settings(**values), replace(FOUND, **changes))


def test_a_queue_must_be_there_or_be_made() -> None:
    assert "no LocalQueue other; there is: runs" in refused(settings(queue="other"), KUEUE)
    made = adopt_cluster("lab", settings(queue="other", cluster_queue="all"), KUEUE)
    adopted = adopt_cluster("lab", settings(queue="runs"), KUEUE)
    assert (made.profile.queue, adopted.profile.queue) == ("other", "runs")


def test_a_priority_class_that_the_stack_makes_need_not_be_there() -> None:
    found = replace(FOUND, has_priority_class=False)

    adopted = adopt_cluster("lab", settings(priority_class="high", priority_value=1000), found)

    assert adopted.profile.kubernetes is not None
    assert adopted.profile.kubernetes.priority_class == "high"


def test_every_object_that_the_settings_name_is_looked_for() -> None:
    given = settings(models_volume_claim="m", files_claims=("v",), priority_class="p")

    found = wanted(given)

    assert found.claims == ("paddock-runs", "m", "v")
    assert found.priority_class == "p"
