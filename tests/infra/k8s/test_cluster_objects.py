"""The objects of a cluster stack: least privilege, read-only volumes, queues that admit runs."""

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from infra.k8s.adopted import AdoptedStack
from infra.k8s.cluster import resource_name
from infra.k8s.files_server import files_server
from infra.k8s.prepull import prepull
from infra.k8s.queues import queues
from infra.k8s.quota import gpu_quota, priority_class
from infra.k8s.rbac import (
    operator_access,
    operator_node_access,
    reconcile_access,
    reconcile_node_access,
)
from infra.k8s.reconcile_deployment import reconcile_deployment
from infra.k8s.resources import type_token
from policies import rules
from runtime import naming
from runtime.kubernetes_discovery import ClaimFact
from tests.infra.k8s.adopting import KUEUE, adopted_stack
from tests.runtime.kubernetes.test_offers import node

EVERYTHING = {
    "tools_image": "tools:1",
    "models_volume_size": "500Gi",
    "files_claims": ("volume-a",),
    "gpu_quota": 16,
    "priority_class": "runs",
    "priority_value": 100,
    "prepull": True,
    "queue": "lab",
    "cluster_queue": "all",
    "own_cluster_queue": True,
    "reconcile_image": "paddock:1",
    "image_pull_secrets": ("pull",),
}


def everything() -> AdoptedStack:
    """Return a stack that makes all that one can make."""
    claim = ClaimFact(name="volume-a", phase="Bound", is_shared=True, is_leaving=False)
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    nodes = (node("n0", taints=[taint], allocatable={"rdma/ib": "100"}),)
    found = replace(KUEUE, claims={"volume-a": claim}, nodes=nodes)
    return adopted_stack(found, **EVERYTHING)


def objects(stack: AdoptedStack) -> list[dict[str, Any]]:
    """Return every object of a stack."""
    return list(
        chain(
            operator_access(stack),
            reconcile_access(stack),
            operator_node_access(stack),
            reconcile_node_access(stack),
            gpu_quota(stack),
            priority_class(stack),
            prepull(stack),
            queues(stack),
            reconcile_deployment(stack),
            files_server(stack),
        )
    )


def by_kind(stack: AdoptedStack, kind: str) -> list[dict[str, Any]]:
    """Return a stack's objects of a kind."""
    return [manifest for manifest in objects(stack) if manifest["kind"] == kind]


def pods(stack: AdoptedStack) -> list[dict[str, Any]]:
    """Return the pod specs of a stack's servers."""
    found = [one["spec"]["template"] for one in objects(stack) if "template" in one.get("spec", {})]
    return [template["spec"] for template in found]


def test_a_plain_stack_makes_nothing_that_was_not_asked_for() -> None:
    stack = adopted_stack()

    for optional in (gpu_quota, priority_class, prepull, queues, reconcile_deployment):
        assert optional(stack) == []


def test_every_object_carries_the_stack_and_no_run() -> None:
    for manifest in objects(everything()):
        labels = manifest["metadata"]["labels"]
        assert labels[naming.LABEL_CLUSTER] == "lab"
        assert naming.LABEL_RUN not in labels


def test_resource_names_differ() -> None:
    stack = everything()
    names = [resource_name(stack, manifest) for manifest in objects(stack)]

    assert len(names) == len(set(names))


def test_no_object_breaks_a_policy() -> None:
    for manifest in objects(everything()):
        subject = rules.Subject(urn="u", type=type_token(manifest), stack="lab", props=manifest)
        for rule in rules.RESOURCE_RULES:
            assert list(rule.judge(subject, {})) == []


def test_a_type_is_told_by_version_and_kind() -> None:
    assert type_token({"apiVersion": "v1", "kind": "Secret"}) == "kubernetes:core/v1:Secret"
    assert type_token({"apiVersion": "apps/v1", "kind": "X"}) == "kubernetes:apps/v1:X"


def test_no_role_has_a_wildcard_or_may_change_roles() -> None:
    for role in [*by_kind(everything(), "Role"), *by_kind(everything(), "ClusterRole")]:
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert "rbac.authorization.k8s.io" not in rule["apiGroups"]
            assert not {"serviceaccounts", "pods/exec", "nodes/proxy"} & set(rule["resources"])


def test_who_reconciles_reads_one_secret_and_deletes_only_what_makes_pods() -> None:
    role = next(one for one in reconcile_access(everything()) if one["kind"] == "Role")

    secrets = [rule for rule in role["rules"] if "secrets" in rule["resources"]]
    deletes = [rule["resources"] for rule in role["rules"] if "delete" in rule["verbs"]]

    assert [(rule["verbs"], rule["resourceNames"]) for rule in secrets] == [
        (["get"], ["paddock-files"])
    ]
    assert deletes == [["jobs"], ["jobsets"]]


def test_nodes_are_only_read_where_no_node_pool_is_owned() -> None:
    operator, observer = (
        operator_node_access(everything())[0],
        reconcile_node_access(everything())[0],
    )

    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    assert operator["rules"] == [nodes, pods]
    assert observer["rules"] == [nodes]
    assert operator["metadata"]["name"] == "paddock-operator-paddock"


def test_only_the_observer_has_a_token() -> None:
    with_token = [pod for pod in pods(everything()) if pod["automountServiceAccountToken"]]

    assert [pod["serviceAccountName"] for pod in with_token] == ["paddock-reconcile"]


def test_servers_run_as_the_user_of_the_runs_without_privileges() -> None:
    for pod in pods(everything()):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 1000
        assert pod["imagePullSecrets"] == [{"name": "pull"}]
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}


def test_servers_keep_off_gpu_nodes_where_there_are_others() -> None:
    pod = files_server(everything())[1]["spec"]["template"]["spec"]
    preferred = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]

    assert preferred[0]["preference"]["matchExpressions"] == [
        {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["NVIDIA-H200"]}
    ]
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_the_image_is_kept_on_every_gpu_node_and_nowhere_else() -> None:
    (daemon_set,) = prepull(everything())
    pod = daemon_set["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert pod["containers"][0]["image"] == "primeintellect/prime-rl:main"
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H200"]}
            ]
        }
    ]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert "nvidia.com/gpu" not in str(pod["containers"][0]["resources"])


def test_the_quota_counts_gpus() -> None:
    (quota,) = gpu_quota(everything())

    assert quota["spec"]["hard"] == {"requests.nvidia.com/gpu": "16"}


def test_a_priority_class_never_preempts_and_is_made_only_with_a_value() -> None:
    (made,) = priority_class(everything())

    assert (made["metadata"]["name"], made["value"]) == ("runs", 100)
    assert made["preemptionPolicy"] == "Never"
    assert priority_class(adopted_stack(priority_class="theirs")) == []


def test_a_queue_that_is_there_is_only_named() -> None:
    assert queues(adopted_stack(KUEUE, queue="runs")) == []


def test_a_local_queue_is_made_for_the_cluster_queue_of_others() -> None:
    (local,) = queues(adopted_stack(KUEUE, queue="lab", cluster_queue="all"))

    assert (local["kind"], local["apiVersion"]) == ("LocalQueue", "kueue.x-k8s.io/v1beta2")
    assert local["spec"] == {"clusterQueue": "all"}


def test_our_cluster_queue_covers_all_that_pods_ask_for_and_counts_gpus() -> None:
    made = queues(everything())
    kinds = [manifest["kind"] for manifest in made]
    queue = made[-2]
    gpus, others = queue["spec"]["resourceGroups"]

    assert kinds == ["ResourceFlavor", "ResourceFlavor", "ClusterQueue", "LocalQueue"]
    assert gpus["coveredResources"] == ["nvidia.com/gpu"]
    assert gpus["flavors"][0]["resources"] == [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]
    assert {"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "rdma/ib"} == set(
        others["coveredResources"]
    )
    flavors = {one["metadata"]["name"]: one.get("spec", {}) for one in made[:2]}
    assert flavors[gpus["flavors"][0]["name"]]["nodeLabels"] == {
        "nvidia.com/gpu.product": "NVIDIA-H200"
    }
    assert flavors[others["flavors"][0]["name"]] == {}


def test_the_observer_reaches_the_cluster_from_within() -> None:
    (deployment,) = reconcile_deployment(everything())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    assert container["command"] == ["paddock", "reconcile"]
    assert container["args"] == ["--context", "in-cluster", "--namespace", "paddock"]
    assert container["image"] == "paddock:1"


@pytest.mark.parametrize("cluster", ["lab", "Lab_1", "x" * 90])
def test_labels_fit_whatever_the_stack_is_called(cluster: str) -> None:
    value = naming.cluster_labels(cluster)[naming.LABEL_CLUSTER]

    assert len(value) <= 63
    assert value[:1].isalpha()
