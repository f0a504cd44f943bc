"""What befalls a run on a real cluster is seen, named, and written into its record."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runtime.cluster import KubernetesConnection
from runtime.cluster_runs import ClusterRun, component_rows, find_run, open_logs, stop_cluster_run
from runtime.observe.kubernetes.headroom import read_headroom
from runtime.observe.kubernetes.orphans import find_orphans
from runtime.observe.logs import LogQuery
from runtime.states import RunState
from tests.cluster.cut_line import cut_line
from tests.cluster.observed_runs import Observed, ObservedRun, observe, says
from tests.testbed.cluster import Cluster, Testbed
from tests.testbed.kwok import KEEP_RUNNING
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def observed(cluster: Cluster) -> Iterator[Observed]:
    name = cluster.make_namespace("observe")
    with pytest.MonkeyPatch.context() as patch:
        for patience in ("PULL_PATIENCE_S", "NO_IMAGE_PATIENCE_S"):
            patch.setattr(f"runtime.observe.kubernetes.container_causes.{patience}", 5.0)
        patch.setattr("runtime.observe.kubernetes.pod_causes.NODE_LOST_S", 3.0)
        with observe(cluster, name) as made:
            yield made
    cluster.delete_namespace(name)


def on_cluster(run: ObservedRun, monkeypatch: pytest.MonkeyPatch) -> ClusterRun:
    """Return the run as the CLI handles it."""
    kubeconfig = run.site.cluster.kubeconfig
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    context = str(yaml.safe_load(kubeconfig.read_text())["current-context"])
    connection = KubernetesConnection(context=context, namespace=run.site.api.namespace)
    found = find_run(connection, run.run_id)
    assert found is not None
    return found


def test_a_run_goes_from_queued_to_completed(observed: Observed):
    run = observed.start(
        "to-the-end",
        orchestrator=f"import time; time.sleep(4); {says('completed', end_mark=True)}",
        trainer=f"import time; time.sleep(5); {says('completed')}",
    )

    record = run.wait(RunState.COMPLETED)

    states = [change.state for change in record.times]
    assert states[0] is RunState.QUEUED
    assert states[-2:] == [RunState.RUNNING, RunState.COMPLETED]


def test_two_runs_of_a_namespace_do_not_see_each_other(observed: Observed):
    lucky = observed.start("lucky")
    unlucky = observed.start("unlucky", trainer=says("failed", code=3))

    record = unlucky.wait(RunState.FAILED)

    assert lucky.wait(RunState.RUNNING).state is RunState.RUNNING
    assert f"trainer-0 (pod {unlucky.pod('trainer')} on" in record.reason
    assert "exited with code 3" in record.reason
    assert record.exit is not None
    assert record.exit.last_lines == ("last words",)


def test_a_killed_container_is_named_with_its_signal(testbed: Testbed, observed: Observed):
    run = observed.start("killed")
    run.wait(RunState.RUNNING)

    testbed.kill_container(run.pod("trainer"), namespace=observed.api.namespace)

    record = run.wait(RunState.FAILED)
    assert "was killed by SIGKILL (exit code 137)" in record.reason
    assert record.exit is not None
    assert record.exit.last_lines == ("here I am",)


def test_a_pod_out_of_memory_is_named_with_its_limit(observed: Observed):
    run = ObservedRun(site=observed, run_id="hungry")
    run.begin()
    eat = "x = [bytearray(b'1' * 10**7) for _ in range(10**6)]"
    limits = {"limits": {"memory": "64Mi", "cpu": "500m"}}
    observed.api.create("Job", run.job("trainer", eat, resources=limits))

    assert "was OOMKilled: it went over its memory limit of 64Mi" in (
        run.wait(RunState.FAILED).reason
    )


def test_a_tag_that_does_not_exist_fails_the_run_and_frees_its_place(observed: Observed):
    run = ObservedRun(site=observed, run_id="wrong-tag")
    run.begin()
    image = "primeintellect/prime-rl:no-such-tag"
    observed.api.create("Job", run.job("trainer", "", image=image))

    record = run.wait(RunState.FAILED)

    assert f"trainer-0 (pod {run.run_id}-1-trainer-0-0-" in record.reason
    assert f"cannot pull the image {image}" in record.reason
    assert "no-such-tag" in record.reason.partition("): ")[2]
    wait_for(lambda: run.num_live_pods() == 0)


def test_a_run_without_a_place_says_the_scheduler_s_words(observed: Observed):
    run = ObservedRun(site=observed, run_id="too-big")
    run.begin()
    gpus = {"limits": {"nvidia.com/gpu": "4096"}}
    observed.api.create("Job", run.job("trainer", "", resources=gpus))
    observed.api.create("Job", run.job("orchestrator", "import time; time.sleep(3600)"))

    record = run.wait(RunState.PENDING)

    assert record.state is RunState.PENDING
    words = "1 of 2 pods wait for a node; trainer-0: 0/"  # two do until the other one has its node
    wait_for(lambda: run.record().reason.startswith(words))
    assert "nvidia.com/gpu" in run.record().reason


def test_a_deleted_pod_is_named(observed: Observed):
    run = observed.start("deleted-pod")
    run.wait(RunState.RUNNING)
    name = run.pod("trainer")

    observed.api.delete("Pod", name)

    record = run.wait(RunState.FAILED)
    assert record.reason.startswith(f"trainer-0 (pod {name} on ")
    assert record.reason.endswith(") was deleted")


def test_a_stop_is_no_failure(observed: Observed, monkeypatch: pytest.MonkeyPatch):
    run = observed.start("stopped")
    run.wait(RunState.RUNNING)

    record = stop_cluster_run(on_cluster(run, monkeypatch), reason="by hand")

    assert record.state is RunState.STOPPED
    assert run.num_live_pods() == 0
    assert [one.state for one in run.record().times][-2:] == [RunState.RUNNING, RunState.STOPPED]


def test_components_and_logs_are_told_without_a_file_server(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
):
    run = observed.start("listed")
    run.wait(RunState.RUNNING)
    found = on_cluster(run, monkeypatch)

    rows, record = component_rows(found)
    with open_logs(found, lambda _: None) as logs:
        trainer = logs.launched(1).pods[1]
        lines = list(logs.lines(1, trainer, LogQuery(), is_followed=False))

    assert [(row["name"], row["state"]) for row in rows] == [
        ("orchestrator", "running"),
        ("trainer-0", "running"),
    ]
    assert rows[1]["pod"] == run.pod("trainer")
    assert record.state is RunState.RUNNING
    assert lines == ["here I am"]


def test_a_lost_node_is_named(testbed: Testbed, observed: Observed):
    (node,) = testbed.add_kwok_nodes(1)
    try:
        run = ObservedRun(site=observed, run_id="lost-node")
        run.begin()
        placed = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "annotations": dict(KEEP_RUNNING),
        }
        for role in ("trainer", "orchestrator"):
            observed.api.create("Job", run.job(role, "", **placed))
        run.wait(RunState.RUNNING)

        testbed.lose_node(node)

        record = run.wait(RunState.FAILED, timeout_s=200)
        assert f" on {node}) was lost" in record.reason
    finally:
        testbed.remove_kwok_nodes([node])


def test_headroom_counts_what_pods_hold(testbed: Testbed, observed: Observed):
    (node,) = testbed.add_kwok_nodes(1, gpus=8)
    try:
        run = ObservedRun(site=observed, run_id="holds-gpus")
        run.begin()
        gpus = {"limits": {"nvidia.com/gpu": "6"}}
        placed = {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "annotations": dict(KEEP_RUNNING),
        }
        observed.api.create("Job", run.job("trainer", "", resources=gpus, **placed))
        wait_for(lambda: free(observed, node) == 2)

        assert free(observed, node, ignored_run=run.run_id) == 8
    finally:
        testbed.remove_kwok_nodes([node])


def free(observed: Observed, node: str, *, ignored_run: str = "") -> int | None:
    rooms = read_headroom(observed.api, ignored_run=ignored_run)
    return next((room.num_free for room in rooms if room.node == node), None)


def test_what_no_run_has_any_more_is_reported_and_left(observed: Observed):
    run = ObservedRun(site=observed, run_id="forgotten")
    run.begin()
    left = run.job("trainer", "")
    left["metadata"]["labels"]["paddock.dev/attempt"] = "1"
    left["spec"]["suspend"] = True
    observed.api.create("Job", left)
    observed.api.delete("ConfigMap", "paddock-record-forgotten")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runtime.observe.kubernetes.orphans._YOUNG_S", -60.0)
        found = [str(one) for one in find_orphans(observed.api) if one.run_id == "forgotten"]

    assert any(line.startswith("left behind: Job forgotten-1-trainer-0") for line in found)
    assert observed.api.get("Job", "forgotten-1-trainer-0") is not None


def test_an_observer_that_was_cut_off_misses_nothing(
    testbed: Testbed, namespace: str, tmp_path: Path
):
    with (
        cut_line(testbed.kubeconfig, tmp_path) as (line, kubeconfig),
        observe(testbed, namespace, kubeconfig=kubeconfig) as observed,
    ):
        run = observed.start("cut-off")
        run.wait(RunState.RUNNING)
        line.cut()
        wait_for(lambda: observed.watch.unreachable_since is not None)
        trainer = run.pod("trainer")
        testbed.kill_container(trainer, namespace=namespace)
        testbed.wait_for_pod(
            trainer, lambda pod: pod["status"]["phase"] == "Failed", namespace=namespace
        )
        assert run.record().state is RunState.RUNNING

        line.mend()

        assert "was killed by SIGKILL" in run.wait(RunState.FAILED).reason
        assert any("cannot be reached since" in said for said in observed.said)
