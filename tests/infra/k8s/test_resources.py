"""What a run's pods ask for, mount, and where they may run."""

import pytest

from infra.k8s.manifests import run_manifests
from infra.k8s.placed import Manifest
from runtime.cluster import Toleration
from tests.infra.k8s.placing import (
    H200,
    NODE_CLASS,
    TAINT,
    groups_of,
    main,
    manifests,
    placed,
    pod,
    profile,
)

GANG = {"gang_api": "scheduling.k8s.io/v1beta1"}


def resources(group: str, shape: str = "multi_node", **over: object) -> Manifest:
    """Return the resources of a group's main container."""
    return main(manifests(shape, **over), group)["resources"]


def near(spec: Manifest) -> Manifest | None:
    """Return the required pod affinity of a pod, None where there is none."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = spec.get("affinity", {}).get("podAffinity", {}).get(required, [None])
    (term,) = terms
    return term


def test_a_pod_of_a_whole_node_takes_the_node_and_leaves_room_for_its_daemons() -> None:
    found = resources("trainer")

    assert found["requests"]["cpu"] == "163200m"  # 192 x 0.85
    assert found["requests"]["memory"] == found["limits"]["memory"] == "1740800Mi"
    assert found["requests"]["ephemeral-storage"] == "512000Mi"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "rdma/ib", "hugepages-2Mi"])
def test_devices_are_asked_for_as_much_as_they_are_limited(resource: str) -> None:
    found = resources("inference")

    expected = {"nvidia.com/gpu": "8", "rdma/ib": "8", "hugepages-2Mi": "5120Mi"}
    assert found["requests"][resource] == found["limits"][resource] == expected[resource]


def test_half_a_node_gets_half_of_everything() -> None:
    found = resources("trainer", "smaller nodes")

    assert found["limits"]["nvidia.com/gpu"] == "4"
    assert found["limits"]["rdma/ib"] == "4"
    assert found["limits"]["hugepages-2Mi"] == "2560Mi"
    assert found["requests"]["cpu"] == "81600m"


def test_only_pods_of_whole_nodes_get_rdma_and_may_lock_memory() -> None:
    whole, shared = main(manifests("multi_node"), "trainer"), main(manifests(), "trainer")

    assert whole["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert shared["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "rdma/ib" not in shared["resources"]["limits"]
    without = H200.model_copy(update={"rdma_resource": None})
    plain = main(manifests("multi_node", profile=profile(gpus=(without,))), "trainer")
    assert plain["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_run_that_shares_its_node_asks_for_little_and_may_use_much() -> None:
    found = resources("trainer", "single_node")

    assert found["requests"]["cpu"] == "10200m"  # 192 / 8 x 0.85 x 0.5
    assert found["limits"]["memory"] == "1740800Mi"
    assert found["limits"]["nvidia.com/gpu"] == "1"


def test_a_pod_without_gpus_asks_for_what_its_role_needs() -> None:
    found = resources("orchestrator")

    assert found["requests"] == {"cpu": "3840m", "memory": "16384Mi"}
    assert set(found["limits"]) == {"memory"}


def test_the_pods_of_a_small_node_fit_beside_each_other() -> None:
    small = H200.model_copy(
        update={"gpus_per_node": 32, "cpu_per_node": 2.0, "memory_gib_per_node": 8.0}
    )

    found = manifests("multi_node", profile=profile(gpus=(small,)))

    asked = 0
    for item in found.jobs:
        spec = item["spec"]["template"]["spec"]
        containers = spec["containers"] + spec["initContainers"]
        cpus = [int(one["resources"]["requests"]["cpu"][:-1]) for one in containers]
        asked += max(cpus) * item["spec"]["completions"]
    assert asked <= 1900, "in thousandths of a CPU, of two; the rest is for other pods"


def test_a_queue_need_not_cover_ephemeral_storage() -> None:
    found = resources("trainer", profile=profile(queue="runs"))

    assert "ephemeral-storage" not in found["requests"]


def test_nodes_of_unknown_shape_are_asked_for_as_the_chart_asks() -> None:
    unknown = H200.model_copy(update={"cpu_per_node": None, "memory_gib_per_node": None})

    found = resources("trainer", profile=profile(gpus=(unknown,)))

    assert found["requests"]["cpu"] == "1000m"
    assert found["requests"]["memory"] == "4096Mi"
    assert "memory" not in found["limits"]


def test_shared_memory_is_a_volume_of_a_known_size() -> None:
    found = manifests("multi_node")

    (shm,) = [item for item in pod(found, "trainer")["volumes"] if item["name"] == "shm"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "65536Mi"}
    mounts = {item["name"]: item["mountPath"] for item in main(found, "trainer")["volumeMounts"]}
    assert mounts["shm"] == "/dev/shm"


def test_shared_memory_is_a_part_of_a_small_pods_memory() -> None:
    small = H200.model_copy(update={"memory_gib_per_node": 8.0})

    found = manifests("multi_node", profile=profile(gpus=(small,)))

    (shm,) = [item for item in pod(found, "trainer")["volumes"] if item["name"] == "shm"]
    assert shm["emptyDir"]["sizeLimit"] == "1740Mi"


def mounts(**over: object) -> dict[str, Manifest]:
    """Return the mounts of the trainer's container by their paths."""
    container = main(manifests(**over), "trainer")
    return {item["mountPath"]: item for item in container["volumeMounts"]}


def test_the_run_directory_is_a_folder_of_the_run_volume() -> None:
    found = mounts(volume_claim="mine")

    assert found["/paddock/run"]["subPath"] == "runs/run-123"
    assert "/volume" not in found


def test_a_volume_stacks_claim_is_mounted_whole_too() -> None:
    assert mounts(volume_mounted=True)["/volume"] == {"name": "run", "mountPath": "/volume"}


def test_the_model_cache_is_a_claim_of_its_own_or_a_folder_of_the_run_volume() -> None:
    without = mounts(profile=profile(offer={"models_claim": None}))

    assert mounts()["/paddock/models"] == {"name": "models", "mountPath": "/paddock/models"}
    assert without["/paddock/models"]["subPath"] == "models"
    assert without["/paddock/models"]["name"] == "run"


def test_a_read_only_model_cache_is_mounted_so() -> None:
    found = mounts(profile=profile(offer={"models_read_only": True}))

    assert found["/paddock/models"]["readOnly"] is True


def test_gpu_pods_run_on_the_nodes_of_their_gpu_type() -> None:
    found = manifests("multi_node")

    assert pod(found, "trainer")["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert "nodeSelector" not in pod(found, "orchestrator")


def test_pods_without_gpus_stay_off_gpu_nodes_where_there_are_others() -> None:
    affinity = pod(manifests("multi_node"), "orchestrator")["affinity"]["nodeAffinity"]

    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"] == [
        {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["NVIDIA-H200"]}
    ]


def test_every_pod_tolerates_the_taints_of_the_cluster_and_the_gpu_nodes() -> None:
    own = Toleration(key="team", operator="Equal", value="rl")
    found = manifests("multi_node", profile=profile(offer={"tolerations": (own, TAINT)}))

    expected = [
        {"key": "team", "operator": "Equal", "value": "rl"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert [pod(found, group)["tolerations"] for group in groups_of(found)] == [expected] * 5


def test_a_run_of_whole_nodes_claims_nodes_by_the_exclusive_label() -> None:
    cluster = profile(offer={"exclusive_label": "reserved-for"})
    whole, shared = manifests("multi_node", profile=cluster), manifests(profile=cluster)

    assert pod(whole, "trainer")["nodeSelector"]["reserved-for"] == "run-123"
    assert {"key": "reserved-for", "operator": "Equal", "value": "run-123"} in pod(
        whole, "trainer"
    )["tolerations"]
    assert "reserved-for" not in pod(shared, "trainer")["nodeSelector"]


def test_the_gpu_pods_of_a_single_node_share_a_node_and_select_themselves() -> None:
    found = manifests()

    for group in ("trainer", "inference"):
        term = near(pod(found, group))
        assert term is not None
        assert term["topologyKey"] == "kubernetes.io/hostname"
        selector = term["labelSelector"]
        labels = next(
            item["spec"]["template"]["metadata"]["labels"]
            for item in found.jobs
            if item["metadata"]["name"].endswith(f"{group}-0")
        )
        assert selector["matchLabels"].items() <= labels.items()
        (expression,) = selector["matchExpressions"]
        assert labels[expression["key"]] in expression["values"]
    assert near(pod(found, "orchestrator")) is None


def test_the_pods_of_several_nodes_need_not_be_near() -> None:
    found = manifests("multi_node")

    assert [near(pod(found, group)) for group in groups_of(found)] == [None] * 5


def test_pods_that_share_a_volume_of_one_node_follow_the_gpus() -> None:
    cluster = profile(shared_storage=False, offer=GANG)
    found = manifests(profile=cluster)

    spec = pod(found, "orchestrator")
    term = near(spec)
    assert term is not None
    (expression,) = term["labelSelector"]["matchExpressions"]
    assert sorted(expression["values"]) == ["inference", "trainer"]
    assert spec["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert "schedulingGroup" not in spec
    (group,) = found.pod_groups
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2


def test_a_run_with_nodes_of_its_own_selects_and_tolerates_them() -> None:
    found = manifests("multi_node", profile=profile(offer={"node_class": NODE_CLASS}))

    assert pod(found, "trainer")["nodeSelector"] == {"paddock.dev/run": "run-123"}
    assert {"key": "paddock.dev/run", "operator": "Equal", "value": "run-123"} in pod(
        found, "orchestrator"
    )["tolerations"]


def test_a_run_of_any_gpu_type_selects_no_node() -> None:
    run = placed(profile=profile(gpus=(H200.model_copy(update={"gpus_per_node": 1}),)))
    assert run.plan.pool.gpu_type is None, "no offer has two GPUs a node"

    found = run_manifests(run)

    assert "nodeSelector" not in pod(found, "trainer")
