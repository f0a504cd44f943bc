"""What every pod of a run is: how it starts, ends, and what it may do."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infra.k8s.manifests import run_manifests
from runtime import naming, pod_names
from runtime.launch.pod_entry import packages_environment
from runtime.pod_layout import OTHER_RUN_DIR
from tests.infra.k8s.placing import (
    NODE_CLASS,
    OFFER,
    RUN_ID,
    disaggregated,
    groups_of,
    job,
    main,
    manifests,
    placed,
    placed_text,
    pod,
    profile,
)
from tests.runtime.deployments import SHAPES, TEXT


@pytest.mark.parametrize("shape", SHAPES)
def test_there_is_a_pod_for_each_component_of_the_plan(shape: str) -> None:
    run = placed(shape)

    found = run_manifests(run)

    names = {
        f"{job['metadata']['name']}-{index}"
        for job in found.jobs
        for index in range(job["spec"]["completions"])
    }
    plan = run.plan
    hosts = {pod_names.host_name(plan.run_id, plan.attempt, item) for item in run.components}
    assert names == hosts
    assert len(names) == plan.num_pods


@pytest.mark.parametrize("shape", ["single_node", "replicas", "disaggregated"])
def test_no_pod_starts_twice(shape: str) -> None:
    for item in manifests(shape).jobs:
        spec = item["spec"]

        assert spec["completionMode"] == "Indexed"
        assert spec["completions"] == spec["parallelism"]
        assert spec["backoffLimit"] == 0
        assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_a_disruption_ends_a_job_for_a_reason_of_its_own() -> None:
    (rule,) = job(manifests(), "trainer")["spec"]["podFailurePolicy"]["rules"]

    assert rule == {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}


def test_a_pod_gets_nothing_of_the_cluster_that_it_has_no_use_for() -> None:
    found = manifests("several engines")

    for group in groups_of(found):
        spec = pod(found, group)
        assert spec["enableServiceLinks"] is False
        assert spec["automountServiceAccountToken"] is False
        assert "hostNetwork" not in spec
        assert spec["securityContext"] == {
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "runAsNonRoot": True,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        for container in spec["initContainers"] + spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }


def test_user_and_group_are_the_clusters() -> None:
    context = pod(
        manifests(profile=profile(offer={"run_as_user": 1234, "fs_group": 5678})), "trainer"
    )["securityContext"]

    assert (context["runAsUser"], context["fsGroup"]) == (1234, 5678)


def test_every_container_starts_through_the_programs_of_the_config_map() -> None:
    spec = pod(manifests("multi_node"), "trainer")

    (prepare,) = spec["initContainers"]
    entry = ["python3", "-u", "/paddock/launch/pod_entry.py"]
    assert (prepare["name"], prepare["command"]) == ("prepare", [*entry, "prepare", "trainer"])
    (container,) = spec["containers"]
    assert (container["name"], container["command"]) == ("main", [*entry, "run", "trainer"])


def test_a_verdict_is_left_where_kubelet_reads_it() -> None:
    container = main(manifests(), "orchestrator")

    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"


def test_the_image_is_the_given_one_and_its_secrets_the_clusters() -> None:
    found = manifests(image="IMAGE", profile=profile(offer={"image_pull_secrets": ("a", "b")}))

    spec = pod(found, "inference")
    images = {item["image"] for item in spec["initContainers"] + spec["containers"]}
    assert images == {"IMAGE"}
    assert spec["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert "imagePullSecrets" not in pod(manifests(), "inference")


def test_the_priority_class_is_the_clusters() -> None:
    found = manifests(profile=profile(offer={"priority_class": "runs"}))

    assert pod(found, "trainer")["priorityClassName"] == "runs"
    assert "priorityClassName" not in pod(manifests(), "trainer")


def test_a_trainer_has_time_for_its_last_checkpoint() -> None:
    found = manifests()

    assert pod(found, "trainer")["terminationGracePeriodSeconds"] == 90
    assert pod(found, "orchestrator")["terminationGracePeriodSeconds"] == 40


def test_every_pod_carries_the_labels_that_tell_it_from_all_others() -> None:
    found = manifests("replicas", attempt=2)

    labels = job(found, "inference", 1)["spec"]["template"]["metadata"]["labels"]
    assert labels == {
        naming.LABEL_MANAGED_BY: "paddock",
        naming.LABEL_RUN: RUN_ID,
        naming.LABEL_ATTEMPT: "2",
        naming.LABEL_COMPONENT: "inference",
        pod_names.LABEL_REPLICATED_JOB: "inference",
        pod_names.LABEL_JOB_INDEX: "1",
    }


def test_a_component_of_one_pod_has_its_own_name_as_label() -> None:
    found = manifests()

    labels = job(found, "trainer")["metadata"]["labels"]
    assert labels[naming.LABEL_COMPONENT] == "trainer-0"


def test_no_autoscaler_moves_a_pod() -> None:
    annotations = job(manifests(), "orchestrator")["spec"]["template"]["metadata"]["annotations"]

    assert annotations == {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }


def test_inference_is_probed_on_its_first_engine() -> None:
    container = main(manifests("several engines"), "inference")

    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["httpGet"] == {"path": "/health", "port": 8100}
    assert startup["periodSeconds"] * startup["failureThreshold"] == 45 * 60
    assert liveness["httpGet"] == {"path": "/liveness", "port": 8100}
    assert liveness["timeoutSeconds"] > 30
    assert liveness["periodSeconds"] * liveness["failureThreshold"] > 720


def test_decode_is_probed_on_its_own_port() -> None:
    run = placed("disaggregated")

    container = main(run_manifests(run), "decode")

    assert container["startupProbe"]["httpGet"]["port"] == disaggregated(run).decode_port


def test_a_trainer_is_probed_where_it_serves_metrics() -> None:
    text = TEXT.format(deployment="", more="[inference]\n[trainer.metrics_server]\nport = 8123")

    probed = main(run_manifests(placed_text(text)), "trainer")

    assert probed["livenessProbe"]["httpGet"] == {"path": "/health", "port": 8123}
    assert "livenessProbe" not in main(manifests(), "trainer")


@pytest.mark.parametrize("group", ["router", "orchestrator", "env-train-reverse-text"])
def test_what_serves_no_http_health_has_no_probe(group: str) -> None:
    container = main(manifests("several engines"), group)

    assert not {"startupProbe", "livenessProbe", "readinessProbe"} & set(container)


def test_environment_packages_are_installed_where_tasksets_are_imported() -> None:
    specs = ("math-env==1.2.0", "wiki @ https://host/wiki-$(X).whl")
    found = manifests("several engines", environments=specs)

    for group in ("orchestrator", "env-train-reverse-text"):
        first, second = pod(found, group)["initContainers"]
        assert (first["name"], second["name"]) == ("packages", "prepare")
        entry = ["python3", "-u", "/paddock/launch/pod_entry.py"]
        assert first["command"] == [*entry, "packages", group]
        assert first["args"] == [
            *("python3", "-u", "/paddock/launch/packages.py"),
            *("math-env==1.2.0", "wiki @ https://host/wiki-$$(X).whl"),
        ]
        assert first["terminationMessagePolicy"] == "FallbackToLogsOnError"
        for container in (first, second, main(found, group)):
            assert container["volumeMounts"][-1] == {
                "name": "packages",
                "mountPath": "/paddock/packages",
            }
    for group in ("trainer", "inference", "router"):
        assert [item["name"] for item in pod(found, group)["initContainers"]] == ["prepare"]
        assert "packages" not in [item["name"] for item in pod(found, group)["volumes"]]


@pytest.mark.parametrize(("own", "path"), [(None, "{0}"), ("/app/shim", "{0}:/app/shim")])
def test_installed_packages_come_before_what_the_image_adds(
    tmp_path: Path, own: str | None, path: str
) -> None:
    environ = {"PYTHONPATH": own} if own else {}

    assert packages_environment(environ, tmp_path) == {"PYTHONPATH": path.format(tmp_path)}
    assert packages_environment(environ, tmp_path / "none") == {}


def test_the_ports_of_a_component_are_in_its_pod() -> None:
    found = manifests("disaggregated")

    ports = {item["name"]: item["containerPort"] for item in main(found, "prefill")["ports"]}
    assert ports.items() >= {"http-1": 8101, "side-channel-1": 5601}.items()


def test_nothing_of_a_reserved_cluster_names_a_node_class() -> None:
    assert OFFER.node_class is None
    assert manifests().node_pool is None
    assert manifests(profile=profile(offer={"node_class": NODE_CLASS})).node_pool is not None


def test_the_run_it_starts_with_is_seen_by_the_orchestrators_prepare_alone() -> None:
    run = placed()
    run = replace(run, plan=replace(run.plan, resume_from="run-before:40"))

    found = run_manifests(run)

    containers = [
        (item["metadata"]["name"], container["name"], mount)
        for item in found.jobs
        for part in ("initContainers", "containers")
        for container in item["spec"]["template"]["spec"][part]
        for mount in container["volumeMounts"]
        if mount["mountPath"] == OTHER_RUN_DIR
    ]
    [(job_name, container_name, mount)] = containers
    assert "orchestrator" in job_name
    assert container_name == "prepare"
    assert (mount["subPath"], mount["readOnly"]) == ("runs/run-before", True)
    first = json.loads(found.config_map["data"]["launch.json"])["first_checkpoint"]
    assert (first["run"], first["step"], first["from"]) == ("run-before", 40, OTHER_RUN_DIR)
