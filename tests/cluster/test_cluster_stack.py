"""The cluster stack through the real engine on a real cluster: up, again, doctor, models, gone."""

import base64
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from runtime.cluster import parse_profile
from runtime.control.dispatch import new_stack
from runtime.kubernetes_models import cached_models
from tests.cluster.labs import (
    IMAGE,
    STACK,
    Lab,
    files_pod,
    global_objects,
    limited_kubeconfig,
    make_lab,
    run_pod,
    tiny_files,
    wait_for_one_open_node,
)
from tests.engine.sites import Site
from tests.testbed.cluster import Testbed
from tests.testbed.hub import Hub, serve_hub
from tests.testbed.layout import BRIDGE_ADDRESS
from tests.testbed.volumes import LATE, SHARED
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

CANARY = "hf_canary_of_the_cluster_test"


@pytest.fixture(scope="module")
def lab(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield a lab whose stack is up, in a namespace that the stack made; destroy leaves it."""
    wait_for_one_open_node(testbed)
    namespace = f"lab-{os.urandom(4).hex()}"
    made = make_lab(testbed, tmp_path_factory.mktemp("lab"), namespace)
    order = {"priorityClass": f"runs-{namespace}", "priorityValue": 100}
    settings = made.settings(modelsVolumeSize="10Gi", gpuQuota=64, reconcileImage=IMAGE, **order)
    new_stack(made.site.project, STACK, settings)
    made.site.pulumi("up", "-s", STACK)
    assert len(global_objects(testbed, namespace)) == 5
    yield made
    made.site.pulumi("destroy", "-s", STACK)
    try:
        assert global_objects(testbed, namespace) == []
        assert sorted(made.names("persistentvolumeclaims")) == ["paddock-models", "paddock-runs"]
        wait_for(lambda: not made.names("deployments"), timeout_s=90)
        for kind in ("roles", "rolebindings", "resourcequotas", "secrets"):
            assert made.names(kind) == []
        assert set(made.names("configmaps")) <= {"kube-root-ca.crt", "paddock-models"}
    finally:
        testbed.delete_namespace(namespace)


def test_a_second_up_changes_nothing(lab: Lab) -> None:
    lab.site.pulumi("preview", "-s", STACK, "--expect-no-changes")


def test_the_exported_profile_is_what_runs_are_placed_by(lab: Lab) -> None:
    text = lab.site.pulumi("stack", "output", "profile", "-s", STACK, "--json").out

    profile = parse_profile(json.loads(text), cluster=STACK)

    assert profile.shared_storage
    assert profile.gpus[0].num_gpus == 32
    assert profile.kubernetes is not None
    assert profile.kubernetes.models_claim == "paddock-models"


def test_the_pods_of_runs_get_no_account_and_the_operator_no_more_than_it_needs(lab: Lab) -> None:
    subject = f"--as=system:serviceaccount:{lab.namespace}:paddock-operator"
    where = ("--namespace", lab.namespace)

    def may(*words: str) -> bool:
        answer = lab.testbed.try_kubectl("auth", "can-i", *words, subject, *where)
        return answer.stdout.strip() == "yes"

    assert may("create", "jobs.batch")
    assert may("list", "nodes")
    assert may("get", "pods/log")
    assert not may("create", "pods/exec")
    assert not may("create", "rolebindings.rbac.authorization.k8s.io")
    assert not may("delete", "persistentvolumeclaims")
    assert not may("delete", f"namespaces/{lab.namespace}")
    default = f"--as=system:serviceaccount:{lab.namespace}:default"
    listed = lab.testbed.try_kubectl("auth", "can-i", "get", "secrets", default, *where)
    assert listed.stdout.strip() == "no"


def test_a_runs_files_are_read_through_the_api_server(lab: Lab) -> None:
    write = "mkdir -p /v/runs/run-abc/logs && printf 'one\\ntwo\\n' > /v/runs/run-abc/logs/t.log"
    run_pod(lab, "writer", ["sh", "-c", write], claim="paddock-runs")

    with closing(lab.connect()) as api:
        token = api.get("Secret", "paddock-files")
        assert token is not None
        headers = {"X-Paddock-Token": base64.b64decode(token["data"]["token"]).decode()}
        pod = files_pod(lab)
        whole = api.proxy(pod, 8089, "/files/run-abc/logs/t.log", headers=headers).read()
        part = api.proxy(
            pod, 8089, "/files/run-abc/logs/t.log", headers={**headers, "Range": "bytes=4-"}
        )
        refused = api.proxy(pod, 8089, "/files/run-abc/logs/t.log")
        listed = api.proxy(pod, 8089, "/list/run-abc/logs", headers=headers)

        assert whole == b"one\ntwo\n"
        assert (part.status_code, part.read()) == (206, b"two\n")
        assert refused.status_code == 401
        assert [entry["name"] for entry in json.loads(listed.read())] == ["t.log"]


def test_the_file_server_can_neither_write_nor_ask_the_api(lab: Lab) -> None:
    pod = ("exec", files_pod(lab), "--namespace", lab.namespace, "--")

    written = lab.testbed.try_kubectl(*pod, "touch", "/volumes/volume-0/runs/x")
    account = lab.testbed.try_kubectl(*pod, "ls", "/var/run/secrets/kubernetes.io")

    assert "Read-only file system" in written.stderr
    assert account.returncode != 0


def test_reconcile_observes_in_the_cluster_with_its_own_account(lab: Lab) -> None:
    deployment = ("deployment/paddock-reconcile", "--namespace", lab.namespace)
    wait_for(
        lambda: (
            "observing the runs of namespace" in lab.testbed.try_kubectl("logs", *deployment).stdout
        ),
        timeout_s=120,
    )

    with closing(lab.connect()) as api:
        (pod,) = api.list("Pod", labels={"paddock.dev/server": "reconcile"})
    said = lab.testbed.kubectl("logs", *deployment)
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert "not allowed" not in said


def test_doctor_finds_a_cluster_that_is_up_fit(lab: Lab) -> None:
    files_pod(lab)

    answer = json.loads(lab.site.paddock("doctor", "--cluster", STACK, "--output", "json").out)

    verdicts = {check["name"]: check["verdict"] for check in answer["checks"]}
    assert answer["fit"] is True
    for name in ("reachable", "namespace", "access: runs", "run volume", "model cache"):
        assert verdicts[name] == "ok", answer
    assert verdicts["file server"] == "ok", answer
    assert "missing" not in verdicts.values()


def test_doctor_names_a_context_that_is_not_there_and_exits_1(lab: Lab) -> None:
    settings = lab.settings(context="elsewhere")
    path = lab.site.project.settings_file("lost")
    path.write_text(
        yaml.safe_dump({"config": {f"paddock:{key}": value for key, value in settings.items()}})
    )

    result = lab.site.paddock("doctor", "--cluster", "lost", expect=1)

    assert "elsewhere" in result.text
    assert "FAIL" in result.text


def test_a_model_is_downloaded_in_the_cluster_and_listed(lab: Lab, tmp_path: Path) -> None:
    hub = Hub(models={"acme/tiny": tiny_files(tmp_path)})
    with serve_hub(hub, address=BRIDGE_ADDRESS):
        added = lab.site.paddock(
            "models", "add", "acme/tiny", "--cluster", STACK, HF_ENDPOINT=hub.url
        )

    commit = hub.commit("acme/tiny")
    listed = lab.site.paddock("models", "list", "--cluster", STACK, "--output", "json")
    assert f"commit {commit}" in added.out
    assert "acme/tiny is in /paddock/models/hf/hub/models--acme--tiny" in added.err
    assert json.loads(listed.out) == [{"name": "acme/tiny", "commit": commit}]
    look = f"cat /v/hf/hub/models--acme--tiny/snapshots/{commit}/config.json"
    assert run_pod(lab, "reader", ["sh", "-c", look], claim="paddock-models") == "{}"
    assert [name for name in lab.names("jobs") if "model" in name] == []


def test_a_gated_model_needs_the_token_which_is_found_nowhere_after(
    lab: Lab, tmp_path: Path
) -> None:
    models = {"acme/gated": tiny_files(tmp_path)}
    hub = Hub(models=models, gated=frozenset(models), token=CANARY)
    command = ("models", "add", "acme/gated", "--cluster", STACK)
    with serve_hub(hub, address=BRIDGE_ADDRESS):
        refused = lab.site.paddock(*command, expect=1, HF_ENDPOINT=hub.url, HF_TOKEN="")
        added = lab.site.paddock(*command, HF_ENDPOINT=hub.url, HF_TOKEN=CANARY)

    with closing(lab.connect()) as api:
        assert cached_models(api)["acme/gated"] == hub.commit("acme/gated")
    assert "GatedRepoError" in refused.err
    assert "HF_TOKEN" in refused.err
    assert lab.names("secrets") == ["paddock-files"]
    everything = lab.testbed.get(
        "jobs,pods,configmaps,secrets,events", "--namespace", lab.namespace
    )
    seen = json.dumps(everything) + refused.text + added.text
    assert CANARY not in seen
    assert base64.b64encode(CANARY.encode()).decode() not in seen


def test_a_model_that_is_not_there_fails_with_the_hubs_answer(lab: Lab) -> None:
    hub = Hub(models={})
    with serve_hub(hub, address=BRIDGE_ADDRESS):
        result = lab.site.paddock(
            "models", "add", "acme/none", "--cluster", STACK, expect=1, HF_ENDPOINT=hub.url
        )

    assert "acme/none cannot be fetched (RepositoryNotFoundError)" in result.err
    assert "(exit code 1)" in result.err


def test_a_volume_is_protected_and_goes_only_when_it_may(lab: Lab) -> None:
    volume = {"kind": "volume", "cluster": STACK, "size": "1Gi"}
    new_stack(lab.site.project, "shelf", volume)

    lab.site.pulumi("up", "-s", "shelf")
    refused = lab.site.pulumi("destroy", "-s", "shelf", expect=None)
    claim = lab.site.pulumi("stack", "output", "claim", "-s", "shelf").out.strip()
    made = lab.testbed.get("pvc", claim, "--namespace", lab.namespace)
    assert (claim, made["spec"]["storageClassName"]) == ("shelf", SHARED)
    assert refused.code != 0
    assert "protected" in refused.text
    assert "shelf" in lab.names("persistentvolumeclaims")

    lab.site.pulumi("state", "unprotect", "--all", "-s", "shelf", "--yes")
    lab.site.pulumi("destroy", "-s", "shelf")
    assert "shelf" not in lab.names("persistentvolumeclaims")


def test_a_claim_of_the_users_is_adopted_and_stays(lab: Lab) -> None:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": SHARED,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": "theirs", "namespace": lab.namespace}
    manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    lab.testbed.apply({**manifest, "spec": spec})
    new_stack(lab.site.project, "adopted", {"kind": "volume", "cluster": STACK, "claim": "theirs"})

    lab.site.pulumi("up", "-s", "adopted")
    lab.site.pulumi("state", "unprotect", "--all", "-s", "adopted", "--yes")
    lab.site.pulumi("destroy", "-s", "adopted")

    assert "theirs" in lab.names("persistentvolumeclaims")
    lab.testbed.kubectl("delete", "pvc", "theirs", "--namespace", lab.namespace)


def test_late_binding_and_no_right_to_read_classes_hold_nothing_up(
    testbed: Testbed, namespace: str, tmp_path: Path
) -> None:
    with limited_kubeconfig(testbed, namespace, tmp_path) as kubeconfig:
        made = make_lab(testbed, tmp_path / "site", namespace)
        environment = {**made.site.project.environment, "KUBECONFIG": str(kubeconfig)}
        project = type(made.site.project)(path=made.site.project.path, environment=environment)
        site = Site(folder=made.site.folder, project=project)
        new_stack(project, STACK, made.settings(context="limited", storageClass=LATE))

        result = site.pulumi("up", "-s", STACK)  # a wait for the claim would outlast a command

        assert "not allowed to list storageclasses" in result.text
        assert "no right to make ClusterRoles" in result.text
        assert made.names("persistentvolumeclaims") == ["paddock-runs"]
        site.pulumi("destroy", "-s", STACK)


def test_a_namespace_that_is_being_deleted_is_refused_before_anything_is_made(
    testbed: Testbed, namespace: str, tmp_path: Path
) -> None:
    metadata = {"name": "holds", "namespace": namespace, "finalizers": ["example.com/hold"]}
    testbed.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    testbed.kubectl("delete", "namespace", namespace, "--wait=false")
    made = make_lab(testbed, tmp_path / "site", namespace)
    new_stack(made.site.project, STACK, made.settings())
    try:
        result = made.site.pulumi("up", "-s", STACK, expect=None)
    finally:
        patch = json.dumps({"metadata": {"finalizers": None}})
        where = ("--namespace", namespace, "--type=merge", "--patch", patch)
        testbed.kubectl("patch", "configmap", "holds", *where)

    assert result.code != 0
    assert f"namespace {namespace} is being deleted" in result.text
    assert made.site.export(STACK) == []
