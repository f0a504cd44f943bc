"""The objects beside the Jobs: Service, ConfigMap, JobSet, NodePool, PodGroup."""

import json
from dataclasses import asdict

import pytest

from infra.k8s.config_map import MAX_BYTES, read_programs
from infra.k8s.manifests import run_manifests
from runtime import naming
from runtime.errors import RefusedError
from runtime.pod_layout import PROGRAMS
from runtime.pod_transport import gang_notices, transport_notices
from tests.infra.k8s.placing import (
    H200,
    NODE_CLASS,
    job,
    manifests,
    placed,
    placed_text,
    pod,
    profile,
)
from tests.runtime.deployments import SHAPES, TEXT

GANG = {"gang_api": "scheduling.k8s.io/v1beta1"}
JOBSET = {"jobset": True, "queue_api": "kueue.x-k8s.io/v1beta2"}


def test_the_service_has_the_pods_of_this_attempt_of_this_run_only() -> None:
    service = manifests(attempt=3).service

    assert service is not None
    assert service["metadata"]["name"] == "run-123-3"
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"paddock.dev/run": "run-123", "paddock.dev/attempt": "3"},
    }


def test_every_object_and_pod_says_which_control_plane_made_it() -> None:
    def labels_in(value: object) -> list[dict]:
        if isinstance(value, list | tuple):
            return [one for item in value for one in labels_in(item)]
        if not isinstance(value, dict):
            return []
        own = [value["labels"]] if naming.LABEL_COMPONENT in (value.get("labels") or {}) else []
        return own + [one for item in value.values() for one in labels_in(item)]

    found = labels_in(asdict(manifests(control_plane="plane-one")))

    assert len(found) >= 10
    assert {one.get(naming.LABEL_CONTROL_PLANE) for one in found} == {"plane-one"}
    assert naming.LABEL_CONTROL_PLANE not in placed().labels()


def test_pods_have_names_below_the_service() -> None:
    found = manifests("multi_node")

    assert found.service is not None
    assert pod(found, "trainer")["subdomain"] == found.service["metadata"]["name"]


def test_the_config_map_has_the_file_byte_for_byte_and_the_programs() -> None:
    text = "# caf\u00e9 \u2713\n" + TEXT.format(deployment="", more="[inference]")
    run = placed_text(text)

    data = run_manifests(run).config_map["data"]

    assert data["rl.toml"] == text
    assert set(data) == {"rl.toml", "launch.json", *PROGRAMS}
    assert json.loads(data["launch.json"])["run_id"] == "run-123"
    assert data["wrapper.py"] == read_programs()["wrapper.py"]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_launch_document_knows_every_pod(shape: str) -> None:
    found = manifests(shape)

    known = json.loads(found.config_map["data"]["launch.json"])["pods"]

    keys = {
        f"{labels['paddock.dev/replicated-job']}-{labels['paddock.dev/job-index']}-{index}"
        for item in found.jobs
        for labels in [item["spec"]["template"]["metadata"]["labels"]]
        for index in range(item["spec"]["completions"])
    }
    assert set(known) == keys


def test_a_file_that_no_config_map_holds_is_refused_with_what_to_do() -> None:
    text = TEXT.format(deployment="", more="[inference]")
    filler = "# a comment\n" * ((MAX_BYTES - len(text)) // 12 - 1)

    with pytest.raises(RefusedError, match="take comments out"):
        run_manifests(placed_text(text, toml=text + filler))


def test_a_queue_and_jobset_make_one_job_set_of_the_same_pods() -> None:
    cluster = profile(queue="runs", offer=JOBSET)
    found = manifests("replicas", profile=cluster)
    plain = manifests("replicas", profile=profile(queue="runs"))

    assert found.jobs == ()
    assert found.service is None
    assert found.job_set is not None
    spec = found.job_set["spec"]
    shapes = {
        item["name"]: (item["replicas"], item["template"]["spec"]["completions"])
        for item in spec["replicatedJobs"]
    }
    assert shapes == {
        "inference": (3, 1),
        "router": (1, 1),
        "env-train-reverse-text": (1, 1),
        "orchestrator": (1, 1),
        "trainer": (1, 1),
    }
    for item in spec["replicatedJobs"]:
        template = item["template"]["spec"]["template"]
        (container,) = template["spec"]["containers"]
        field = container["env"][0]["valueFrom"]["fieldRef"]["fieldPath"]
        assert field == "metadata.labels['jobset.sigs.k8s.io/job-index']"
        expected = pod(plain, item["name"])["containers"][0]
        assert container["env"][1:] == expected["env"][1:]
        assert container["resources"] == expected["resources"]


def test_the_job_set_waits_for_orchestrator_and_trainer_and_fails_at_once() -> None:
    found = manifests(profile=profile(queue="runs", offer=JOBSET)).job_set

    assert found is not None
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "runs"
    assert found["spec"]["successPolicy"] == {
        "operator": "All",
        "targetReplicatedJobs": ["orchestrator", "trainer"],
    }
    assert found["spec"]["failurePolicy"] == {"maxRestarts": 0}
    assert found["spec"]["network"] == {
        "enableDNSHostnames": True,
        "subdomain": "run-123-1",
        "publishNotReadyAddresses": True,
    }
    assert "suspend" not in found["spec"]


def test_a_queue_without_jobset_takes_the_jobs_and_says_that_it_is_no_gang() -> None:
    cluster = profile(queue="runs")
    run = placed("multi_node", profile=cluster)

    found = run_manifests(run)

    labels = job(found, "trainer")["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "runs"
    (notice,) = gang_notices(run.plan, cluster)
    assert "partial scheduling is possible" in notice


def test_without_queue_and_gang_the_user_is_told() -> None:
    run = placed()

    (notice,) = gang_notices(run.plan, run.profile)

    assert "partial scheduling is possible" in notice
    assert gang_notices(run.plan, profile(offer=GANG)) == []
    assert gang_notices(run.plan, profile(queue="runs", offer=JOBSET)) == []


def test_all_pods_of_a_run_are_one_gang_where_the_scheduler_knows_gangs() -> None:
    run = placed("multi_node", profile=profile(offer={**GANG, "priority_class": "runs"}))

    found = run_manifests(run)

    (group,) = found.pod_groups
    assert group["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": run.plan.num_pods}},
        "disruptionMode": {"all": {}},
        "priorityClassName": "runs",
    }
    for item in found.jobs:
        spec = item["spec"]["template"]["spec"]
        assert spec["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]}


def test_a_queue_makes_no_second_gang() -> None:
    found = manifests(profile=profile(queue="runs", offer=JOBSET | GANG))

    assert found.pod_groups == ()
    assert found.job_set is not None
    assert "schedulingGroup" not in json.dumps(found.job_set)


def test_a_node_pool_is_limited_tainted_and_goes_with_the_run() -> None:
    pool = manifests("multi_node", profile=profile(offer={"node_class": NODE_CLASS})).node_pool

    assert pool is not None
    assert pool["metadata"]["name"] == "team-run-123"
    assert pool["metadata"]["labels"]["paddock.dev/namespace"] == "team"
    spec = pool["spec"]
    assert spec["limits"] == {"nvidia.com/gpu": "32"}
    node = spec["template"]["spec"]
    assert node["taints"] == [
        {"key": "paddock.dev/run", "value": "run-123", "effect": "NoSchedule"}
    ]
    assert node["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "gpu",
    }
    assert node["expireAfter"] == "Never"
    requirements = {item["key"]: item["values"] for item in node["requirements"]}
    assert "p5en.48xlarge" in requirements["node.kubernetes.io/instance-type"]
    assert "spot" not in requirements["karpenter.sh/capacity-type"]
    assert spec["disruption"]["consolidationPolicy"] == "WhenEmpty"


def test_a_node_pool_may_have_a_whole_node_for_a_part_of_it() -> None:
    pool = manifests(profile=profile(offer={"node_class": NODE_CLASS})).node_pool

    assert pool is not None
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": "8"}


def test_another_karpenter_is_asked_by_the_labels_of_the_gpu_type() -> None:
    other = NODE_CLASS.model_copy(update={"group": "karpenter.example.com"})
    pool = manifests(profile=profile(offer={"node_class": other})).node_pool

    assert pool is not None
    assert pool["spec"]["template"]["spec"]["requirements"] == [
        {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H200"]}
    ]


@pytest.mark.parametrize(
    ("resource", "repository", "warns"),
    [
        ("vpc.amazonaws.com/efa", "primeintellect/prime-rl", True),
        ("vpc.amazonaws.com/efa", "ghcr.io/primeintellect-ai/prime-rl", True),
        ("vpc.amazonaws.com/efa", "registry.example/prime-rl-efa", False),
        ("rdma/ib", "primeintellect/prime-rl", False),
    ],
)
def test_an_image_without_efa_is_warned_about(resource: str, repository: str, warns: bool) -> None:
    offer = H200.model_copy(update={"rdma_resource": resource})
    cluster = profile(gpus=(offer,), offer={"image_repository": repository})

    whole = transport_notices(placed("multi_node", profile=cluster).plan, cluster)

    assert bool(whole) is warns
    assert transport_notices(placed(profile=cluster).plan, cluster) == []


def test_workloads_come_last() -> None:
    found = manifests("multi_node", profile=profile(offer={**GANG, "node_class": NODE_CLASS}))

    assert [item["kind"] for item in found.before] == [
        "ConfigMap",
        "Service",
        "NodePool",
        "PodGroup",
    ]
    assert {item["kind"] for item in found.workloads} == {"Job"}
