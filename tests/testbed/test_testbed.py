"""The testbed is what the tests take it for: real pods, real names, real failures."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.testbed import layout, volumes
from tests.testbed.cluster import Testbed
from tests.testbed.control_plane import NODE_GRACE_S
from tests.testbed.kwok import KEEP_RUNNING
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

IMAGE = "primeintellect/prime-rl:main"
PULL_FAILURES = {"ErrImagePull", "ImagePullBackOff"}
LIMIT_S = 180.0  # three times what a busy machine took


Pod = dict[str, Any]  # as the API shows it


def pod_manifest(name: str, *command: str, namespace: str, **spec: Any) -> Pod:  # noqa: ANN401
    """Return a pod of one container; `container` holds more of that, the rest more of the pod."""
    container = {"name": "main", "image": IMAGE, "command": list(command)}
    container |= spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "hostname": name,
            "subdomain": "peers",
            "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "fsGroup": 1000},
            "containers": [container],
            **spec,
        },
    }


def is_over(pod: Pod) -> bool:
    return pod["status"]["phase"] in {"Succeeded", "Failed"}


def is_running(pod: Pod) -> bool:
    return pod["status"]["phase"] == "Running"


def finished(testbed: Testbed, manifest: dict[str, Any], *more: dict[str, Any]) -> tuple[Pod, str]:
    """Run a pod to its end and return it with its log."""
    testbed.apply(manifest, *more)
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    pod = testbed.wait_for_pod(name, is_over, namespace=namespace, timeout_s=LIMIT_S)
    return pod, testbed.kubectl("logs", name, "--namespace", namespace)


def state_of(pod: Pod) -> dict[str, Any]:
    return pod["status"]["containerStatuses"][0]["state"]


def test_the_node_is_ready_and_advertises_what_a_gpu_node_has(testbed: Testbed) -> None:
    node = testbed.get("node", layout.NODE)

    conditions = {entry["type"]: entry["status"] for entry in node["status"]["conditions"]}
    allocatable = node["status"]["allocatable"]
    assert conditions["Ready"] == "True"
    assert allocatable["nvidia.com/gpu"] == "32"
    assert allocatable["rdma/ib"] == "1k"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H200"


def test_a_pod_of_uid_1000_has_this_machines_python(testbed: Testbed, namespace: str) -> None:
    code = "import os, runtime.plan; print(os.getuid(), runtime.plan.__file__)"
    resources = {"resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "1"}}}
    manifest = pod_manifest(
        "python", "python3", "-c", code, namespace=namespace, container=resources
    )

    pod, log = finished(testbed, manifest)

    assert pod["status"]["phase"] == "Succeeded", log
    assert log.split() == ["1000", str(layout.CHECKOUT / "runtime" / "plan.py")]


def test_pods_find_each_other_by_name(testbed: Testbed, namespace: str) -> None:
    headless = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "peers", "namespace": namespace},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app": "server"},
            "ports": [{"port": 8000}],
        },
    }
    routed = {**headless, "metadata": {"name": "routed", "namespace": namespace}}
    routed["spec"] = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8000}]}
    serve = ("python3", "-m", "http.server", "8000", "--directory", "/app/bin")
    server = pod_manifest("server", *serve, namespace=namespace)
    code = (
        "import time, urllib.request\n"
        "for url in ('http://server.peers:8000/hello', 'http://routed/hello'):\n"
        "    for _ in range(300):\n"
        "        try:\n"
        "            print(urllib.request.urlopen(url, timeout=5).status)\n"
        "            break\n"
        "        except OSError:\n"
        "            time.sleep(0.2)\n"
    )
    client = pod_manifest("client", "python3", "-c", code, namespace=namespace)

    _, log = finished(testbed, client, headless, routed, server)

    assert log.split() == ["200", "200"]


def test_exec_reaches_a_running_pod(testbed: Testbed, namespace: str) -> None:
    testbed.apply(pod_manifest("long", "sleep", "600", namespace=namespace))
    testbed.wait_for_pod("long", is_running, namespace=namespace, timeout_s=LIMIT_S)

    output = testbed.kubectl("exec", "long", "--namespace", namespace, "--", "hello")

    assert output == "hello from long\n"


def test_a_killed_container_has_its_exit_code(testbed: Testbed, namespace: str) -> None:
    testbed.apply(pod_manifest("victim", "sleep", "600", namespace=namespace))
    testbed.wait_for_pod("victim", is_running, namespace=namespace, timeout_s=LIMIT_S)

    testbed.kill_container("victim", namespace=namespace)
    pod = testbed.wait_for_pod("victim", is_over, namespace=namespace, timeout_s=LIMIT_S)

    assert pod["status"]["phase"] == "Failed"
    assert state_of(pod)["terminated"]["exitCode"] == 137


def test_a_container_over_its_memory_is_oom_killed(testbed: Testbed, namespace: str) -> None:
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    code = "held = bytearray(512 * 2**20); held[::4096] = b'x' * len(held[::4096])"
    hungry = pod_manifest("hungry", "python3", "-c", code, namespace=namespace, container=limits)

    pod, _ = finished(testbed, hungry)

    assert state_of(pod)["terminated"]["reason"] == "OOMKilled"


def test_a_wrong_tag_fails_to_pull_at_once(testbed: Testbed, namespace: str) -> None:
    wrong = {"image": "primeintellect/prime-rl:no-such-tag"}
    testbed.apply(pod_manifest("wrong", "true", namespace=namespace, container=wrong))

    def has_failed(pod: Pod) -> bool:
        statuses = pod["status"].get("containerStatuses", [])
        reasons = {status["state"].get("waiting", {}).get("reason") for status in statuses}
        return bool(reasons & PULL_FAILURES)

    pod = testbed.wait_for_pod("wrong", has_failed, namespace=namespace, timeout_s=60)

    assert "no-such-tag" in state_of(pod)["waiting"]["message"]


@pytest.mark.parametrize("storage_class", [volumes.SHARED, volumes.LATE])
def test_a_claimed_volume_can_be_written_to(
    testbed: Testbed, namespace: str, storage_class: str
) -> None:
    testbed.add_volume(storage_class)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "runs", "namespace": namespace},
        "spec": {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "100Gi"}},
        },
    }
    mount = {"name": "runs", "mountPath": "/runs", "subPath": "one/output"}
    writer = pod_manifest(
        *("writer", "sh", "-c", "echo kept > /runs/file && cat /runs/file"),
        namespace=namespace,
        container={"volumeMounts": [mount]},
        volumes=[{"name": "runs", "persistentVolumeClaim": {"claimName": "runs"}}],
    )

    _, log = finished(testbed, writer, claim)

    assert log == "kept\n"


def test_a_pod_may_do_what_its_roles_allow_and_no_more(testbed: Testbed, namespace: str) -> None:
    code = (
        "import json, ssl, urllib.error, urllib.request\n"
        "folder = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
        "trust = ssl.create_default_context(cafile=folder + 'ca.crt')\n"
        "token = {'Authorization': 'Bearer ' + open(folder + 'token').read()}\n"
        "server = 'https://kubernetes.default.svc'\n"
        "for path in ('/version', '/api/v1/namespaces/kube-system/secrets'):\n"
        "    call = urllib.request.Request(server + path, headers=token)\n"
        "    try:\n"
        "        print(urllib.request.urlopen(call, context=trust, timeout=30).status)\n"
        "    except urllib.error.HTTPError as error:\n"
        "        print(error.code)\n"
    )
    manifest = pod_manifest("caller", "python3", "-c", code, namespace=namespace)

    _, log = finished(testbed, manifest)

    assert log.split() == ["200", "403"]


def test_gang_scheduling_is_served(testbed: Testbed) -> None:
    served = testbed.kubectl("api-resources", "--api-group=scheduling.k8s.io", "--output=name")

    assert {"workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io"} <= set(served.split())


def job_manifest(namespace: str, *, group: str, annotations: dict[str, str]) -> dict[str, Any]:
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job", "namespace": namespace},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"group": group},
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                    "initContainers": [{"name": "first", "image": IMAGE}],
                    "containers": [{"name": "main", "image": IMAGE, **gpus}],
                },
            },
        },
    }


@pytest.fixture
def kwok_nodes(testbed: Testbed, namespace: str) -> Iterator[list[str]]:
    """Yield two nodes of kwok with the namespace's label; they go whatever the test's end."""
    names = testbed.add_kwok_nodes(2, labels={"group": namespace})
    yield names
    testbed.remove_kwok_nodes(names)


def test_a_job_on_kwok_nodes_ends(testbed: Testbed, namespace: str, kwok_nodes: list[str]) -> None:
    testbed.apply(job_manifest(namespace, group=namespace, annotations={}))

    waiting = ("--for=condition=Complete", "--timeout=180s", "--namespace", namespace)
    testbed.kubectl("wait", *waiting, "job/job", timeout_s=200)
    pods = testbed.get("pods", "--namespace", namespace)["items"]

    assert {pod["spec"]["nodeName"] for pod in pods} == set(kwok_nodes)


def test_a_silent_node_is_lost(testbed: Testbed, namespace: str, kwok_nodes: list[str]) -> None:
    testbed.apply(job_manifest(namespace, group=namespace, annotations=KEEP_RUNNING))

    def pods_by_node() -> dict[str, str]:
        pods = testbed.get("pods", "--namespace", namespace)["items"]
        return {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in pods if is_running(pod)}

    running = wait_for(
        lambda: found if len(found := pods_by_node()) == 2 else None, timeout_s=LIMIT_S
    )
    assert running is not None
    testbed.lose_node(kwok_nodes[0])
    waiting = ("--for=condition=Ready=Unknown", f"--timeout={3 * NODE_GRACE_S}s")
    testbed.kubectl("wait", *waiting, f"node/{kwok_nodes[0]}", timeout_s=4 * NODE_GRACE_S)
    target = ("pod", running[kwok_nodes[0]], "--namespace", namespace, "--ignore-not-found")
    deleted = ("--output", "jsonpath={.metadata.deletionTimestamp}")

    def is_going() -> bool:
        shown = testbed.kubectl("get", *target)
        return not shown or testbed.kubectl("get", *target, *deleted) != ""

    wait_for(is_going, timeout_s=LIMIT_S)


def test_pods_run_on_while_the_api_server_is_away(testbed: Testbed, namespace: str) -> None:
    testbed.apply(pod_manifest("steady", "sleep", "600", namespace=namespace))
    before = testbed.wait_for_pod("steady", is_running, namespace=namespace, timeout_s=LIMIT_S)

    testbed.stop_api_server()
    during = testbed.try_kubectl("get", "pod", "steady", "--namespace", namespace)
    testbed.start_api_server()
    after = testbed.get("pod", "steady", "--namespace", namespace)

    assert during.returncode != 0
    assert "refused" in during.stderr
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert json.dumps(state_of(after)) == json.dumps(state_of(before))
