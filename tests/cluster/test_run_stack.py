"""A run's stack on a real cluster: accepted, repeated, changed, interrupted, ended.

Its pods stay Pending, since no node has the GPU type that the site's cluster stack offers.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.states import RunState, Teardown
from tests.cluster.sites import GPU_TYPE, LAB, ClusterSite, cluster_settings, held_pod
from tests.secret_search import has_value
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

RUN, OTHER, CHANGED = "run-first", "run-other", "7.25e-4"
GANG = "scheduling.k8s.io/v1beta1"
CANARY = "canary-3f9d6a10-value"


@pytest.fixture(scope="module")
def live(
    site: ClusterSite, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ClusterSite, str]]:
    """Yield the site with two live runs, the first with a secret, and what its `up` printed."""
    toml = site.write_toml(RUN, "long")
    site.paddock("stack", "new", RUN, toml.name, "--cluster", LAB, "-e", "TOKEN", TOKEN=CANARY)
    printed = site.pulumi("preview", "--diff", "-s", RUN).text
    printed += site.pulumi("up", "--diff", "-s", RUN).text
    site.new_run(OTHER)
    site.pulumi("up", "-s", OTHER)
    for run_id in (RUN, OTHER):
        wait_for(lambda run_id=run_id: len(pods(site, run_id)) == 4)
    yield site, printed
    for run_id in (RUN, OTHER):
        site.pulumi("destroy", "-s", run_id)
        assert site.owned(run_id) == {}


def pods(site: ClusterSite, run_id: str) -> dict[str, str]:
    return {name: uid for name, uid in site.owned(run_id).items() if name.startswith("Pod ")}


def test_an_accepted_run_has_all_its_objects_and_a_queued_record(
    live: tuple[ClusterSite, str],
) -> None:
    site, printed = live

    kinds = sorted(name.partition(" ")[0] for name in site.owned(RUN))
    assert kinds == ["ConfigMap", *["Job"] * 4, *["Pod"] * 4, "Secret", "Service"]
    assert site.cluster_record(RUN).attempt == 1
    assert not site.cluster_record(RUN).is_over
    assert "Traceback" not in printed


def test_every_object_depends_on_run_spec_and_has_the_stacks_own_provider(
    live: tuple[ClusterSite, str],
) -> None:
    site, _ = live
    state = json.loads(site.pulumi("stack", "export", "-s", RUN).out)["deployment"]["resources"]
    provider = next(one for one in state if one["type"] == "pulumi:providers:kubernetes")
    spec = next(one for one in state if one["type"].endswith(":RunSpec"))
    objects = [one for one in state if one["type"].startswith("kubernetes:")]

    jobs = [one for one in state if one["type"].endswith("/k8s:GangJob")]

    assert len(objects + jobs) >= 7
    assert all(one["provider"].startswith(provider["urn"]) for one in objects)
    objects += jobs
    assert all(one["deletedWith"] == spec["urn"] for one in objects)
    assert all(spec["urn"] in one["dependencies"] for one in objects)


def test_pods_join_the_gang_of_their_run(live: tuple[ClusterSite, str]) -> None:
    site, _ = live
    if not site.api.serves(GANG, "PodGroup"):
        pytest.skip("the cluster has no gang scheduling")
    found = site.api.list("Pod", labels={"paddock.dev/run": RUN})
    (group,) = site.api.list("PodGroup", labels={"paddock.dev/run": RUN})

    groups = [pod["spec"].get("schedulingGroup") for pod in found]
    joined = [one["podGroupName"] for one in groups if one]
    # the other two follow the GPU pods onto their node, as a volume of one node asks for it
    assert joined == [group["metadata"]["name"]] * 2
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2


def test_up_again_changes_nothing(live: tuple[ClusterSite, str]) -> None:
    site, _ = live
    before = site.owned(RUN)

    result = site.pulumi("up", "-s", RUN)

    assert "unchanged" in result.text
    assert not [word for word in ("created", "replaced", "updated") if word in result.text]
    assert site.owned(RUN) == before


@pytest.mark.parametrize("command", ["preview", "up"])
def test_a_changed_config_of_a_live_run_is_refused_and_no_pod_is_touched(
    live: tuple[ClusterSite, str], command: str
) -> None:
    site, _ = live
    before = site.owned(RUN)
    site.write_toml(RUN, "long", lr=CHANGED)
    try:
        result = site.pulumi(command, "-s", RUN, expect=None)
    finally:
        site.write_toml(RUN, "long")

    assert result.code != 0
    assert "its config was changed: trainer.optim.lr. Nothing was touched" in result.text
    assert "Traceback" not in result.text
    assert site.owned(RUN) == before


def test_two_runs_of_one_namespace_share_no_object_and_no_selector(
    live: tuple[ClusterSite, str],
) -> None:
    site, _ = live
    selectors = [
        one["spec"]["selector"]
        for one in site.objects()
        if one["kind"] == "Service" and one["metadata"]["labels"].get("paddock.dev/run")
    ]

    assert set(site.owned(RUN)).isdisjoint(site.owned(OTHER))
    assert sorted(one["paddock.dev/run"] for one in selectors) == [RUN, OTHER]


def test_a_secret_is_in_one_secret_object_and_nowhere_else(
    live: tuple[ClusterSite, str],
) -> None:
    site, printed = live
    state = site.pulumi("stack", "export", "-s", RUN).out
    objects = [one for one in site.objects() if one["kind"] != "Secret"]
    secrets = [one for one in site.objects() if one["kind"] == "Secret" and holds(json.dumps(one))]
    folders = (site.backend, site.project.path, site.home)
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]

    assert [one["metadata"]["name"] for one in secrets] == [f"{RUN}-1-env"]
    assert "kubectl.kubernetes.io/last-applied-configuration" not in json.dumps(secrets)
    assert [one["metadata"]["name"] for one in objects if holds(json.dumps(one))] == []
    assert not holds(printed)
    assert not holds(state)
    assert [path for path in files if holds(path.read_bytes().decode("latin-1"))] == []


def holds(text: str) -> bool:
    """Tell whether a text has the value, plain or in any alignment of base64."""
    return has_value(text.encode(), CANARY)


def test_a_namespace_on_its_way_out_takes_no_run(site: ClusterSite, tmp_path: Path) -> None:
    namespace = site.kubernetes.make_namespace("leaving")
    context = site.kubernetes.kubectl("config", "current-context").strip()
    settings = cluster_settings(context, namespace, runVolumeClaim="any")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "any", "namespace": namespace, "finalizers": ["example.org/hold"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    site.kubernetes.apply(claim)
    site.new_cluster("leaving", settings)
    site.new_run("run-late", cluster="leaving")
    try:
        site.kubernetes.delete_namespace(namespace)
        refused = site.pulumi("up", "-s", "run-late", expect=None)
    finally:
        patch = '{"metadata":{"finalizers":null}}'
        target = ("pvc", "any", "--namespace", namespace, "--type=merge", "-p", patch)
        site.kubernetes.try_kubectl("patch", *target)
        site.pulumi("destroy", "-s", "leaving", expect=None)

    assert refused.code != 0
    assert f"namespace {namespace} of cluster leaving is Terminating" in refused.text
    assert "Traceback" not in refused.text


@pytest.mark.parametrize("moment", ["record", "first-job"])
def test_destroy_removes_all_of_an_up_that_was_killed(site: ClusterSite, moment: str) -> None:
    run_id = f"cut-{moment}"
    site.new_run(run_id)
    engine = site.start("pulumi", "up", "-s", run_id, "--yes", "--skip-preview")
    begun = {
        "record": lambda: site.has_record(run_id),
        "first-job": lambda: any(name.startswith("Job ") for name in site.owned(run_id)),
    }
    wait_for(begun[moment])
    os.kill(engine.pid, signal.SIGKILL)
    engine.communicate(timeout=60)

    site.paddock("destroy", run_id)

    wait_for(lambda: site.owned(run_id) == {})
    assert site.export(run_id) == []


def test_destroy_needs_neither_the_file_nor_the_settings(site: ClusterSite) -> None:
    site.new_run("run-bare")
    site.pulumi("up", "-s", "run-bare")
    (site.project.path / "run-bare.toml").unlink()

    site.pulumi("destroy", "-s", "run-bare")

    assert site.owned("run-bare") == {}
    record = site.cluster_record("run-bare")
    assert (record.state, record.teardown) == (RunState.STOPPED, Teardown.DONE)


def test_a_stuck_finalizer_is_named_never_stripped_and_the_retry_goes_on(
    site: ClusterSite,
) -> None:
    run_id, finalizer = "run-held", "example.org/hold"
    site.new_run(run_id)
    site.pulumi("up", "-s", run_id)
    site.api.create("Pod", held_pod(run_id, finalizer))
    try:
        stuck = site.pulumi("destroy", "-s", run_id, expect=None, PADDOCK_TEARDOWN_SLACK_S="1")
        record = site.cluster_record(run_id)
        held = site.api.get("Pod", f"{run_id}-held")
    finally:
        site.api.patch("Pod", f"{run_id}-held", {"metadata": {"finalizers": None}})
    site.pulumi("destroy", "-s", run_id)

    assert stuck.code != 0
    assert f"Pod {run_id}-held (finalizers: {finalizer})" in stuck.text
    assert "Traceback" not in stuck.text
    assert record.teardown is Teardown.STUCK
    assert held is not None
    assert held["metadata"]["finalizers"] == [finalizer]
    assert site.owned(run_id) == {}
    assert site.cluster_record(run_id).teardown is Teardown.DONE


def test_a_second_attempt_replaces_the_pods_of_the_first(site: ClusterSite) -> None:
    run_id = "run-again"
    site.new_run(run_id)
    site.pulumi("up", "-s", run_id)
    site.pulumi("config", "set", "paddock:attempt", "2", "-s", run_id)

    result = site.pulumi("up", "-s", run_id)

    assert "Traceback" not in result.text
    attempts = {
        one["metadata"]["labels"]["paddock.dev/attempt"]
        for one in site.objects()
        if one["metadata"].get("labels", {}).get("paddock.dev/run") == run_id
        and not one["metadata"]["name"].startswith("paddock-record-")
    }
    assert attempts == {"2"}
    changes = [(one.attempt, one.state) for one in site.cluster_record(run_id).times]
    assert changes[-2:] == [(1, RunState.STOPPED), (2, RunState.QUEUED)]
    site.pulumi("destroy", "-s", run_id)
    over = site.pulumi("up", "-s", run_id, expect=None)
    assert over.code != 0
    assert "is over (STOPPED)" in over.text
    assert site.owned(run_id) == {}


def test_a_preview_says_when_no_gpu_is_free(site: ClusterSite) -> None:
    site.new_run("run-seen")

    result = site.pulumi("preview", "-s", "run-seen")

    assert f"needs 2 {GPU_TYPE} GPUs, 0 are free now (it waits for its turn)" in result.text
    assert site.owned("run-seen") == {}
