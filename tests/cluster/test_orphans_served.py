"""The sweep for orphans over a real API server: what carries this control plane's id, and no more.

The server is gone when it sweeps: `paddock reconcile --once` does what a server does now and then.
"""

import re
import signal
from typing import Any

import pytest

from runtime import naming
from runtime.kubernetes_api import KINDS
from runtime.states import RunState
from tests.cluster.labs import IMAGE, STACK
from tests.cluster.planes import END_S, Plane, open_plane, write_toml
from tests.cluster.run_files import endless_demo
from tests.cluster.runs import GPU, START_S
from tests.runtime.control.operating.served import END_S as SERVER_END_S
from tests.runtime.control.operating.served import dispatch
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

ANOTHER = "another-control-plane"
OTHERS_RUN = "run-of-another"
MADE_S = 120.0
LINE = re.compile(
    rf"left behind: (?P<kind>\w+) (?P<name>\S+) of (?P<run_id>\S+) on {STACK}: "
    r"its run is STOPPED and torn down(, \$(?P<cost>\d+\.\d\d) since)?: (?P<verdict>\w+)"
)


def test_the_sweep_removes_its_own_reports_the_unsigned_and_is_silent_of_others(
    testbed: Testbed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with open_plane(testbed, tmp_path_factory.mktemp("orphans")) as plane:
        lab = plane.lab
        run_id, owner = ended_run(plane)
        end_server(plane)
        for name, run, signer in (
            ("own", run_id, owner),
            ("unsigned", run_id, ""),
            ("others", run_id, ANOTHER),
            ("strangers", OTHERS_RUN, ANOTHER),
        ):
            testbed.apply(*left_behind(lab.namespace, name, run, signer))
        before = wait_for(lambda: all_made(plane), timeout_s=MADE_S)
        said = lab.site.paddock("reconcile", "--once")
        after = objects(plane)
        assert before is not None

        testbed.kubectl("delete", "jobs", "--all", "--wait=false", "--namespace", lab.namespace)

    printed = [one for one in said.err.splitlines() if one.startswith("left behind: ")]
    lines = [match for one in printed if (match := LINE.fullmatch(one))]
    told = {f"{one['kind']} {one['name']}": one["verdict"] for one in lines}
    costs = {one["kind"] for one in lines if one["cost"]}
    assert {name: uid for name, uid in before.items() if " own" not in name} == after
    assert told == {
        name: "removed" if " own" in name else "kept"
        for name in before
        if " own" in name or " unsigned" in name
    }, said.text
    assert len(printed) == len(told)
    assert costs == {"Pod"}
    assert [one for one in ("others", "strangers", ANOTHER, OTHERS_RUN) if one in said.text] == []


def ended_run(plane: Plane) -> tuple[str, str]:
    """Return a run that was stopped and torn down, and the id which its objects carried."""
    toml = write_toml(plane, "ended.toml", endless_demo())
    run_id = dispatch(plane.prime, toml, "--gpu-type", GPU)
    wait_for(lambda: len(plane.lab.pods(run_id)) == 4, timeout_s=START_S)
    signers = {label_of(one, naming.LABEL_CONTROL_PLANE) for one in plane.lab.pods(run_id)}
    plane.prime("train", "stop", run_id, "--force")
    plane.until(run_id, RunState.STOPPED, timeout_s=END_S)
    plane.until_torn_down(run_id)
    assert plane.lab.left(run_id) == []
    [owner] = signers
    assert owner
    return run_id, owner


def end_server(plane: Plane) -> None:
    """End the server: on SQLite a reconciler is alone."""
    plane.served.process.send_signal(signal.SIGTERM)
    assert plane.served.process.wait(SERVER_END_S) == 0, "".join(plane.served.lines[-30:])


def left_behind(namespace: str, name: str, run_id: str, signer: str) -> list[dict[str, Any]]:
    """Return a Job whose pod holds a GPU, a Service and a ConfigMap of a run; all of one name."""
    labels = naming.run_labels(run_id, 1, "trainer-0")
    if signer:
        labels[naming.LABEL_CONTROL_PLANE] = signer
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["sleep", "3600"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    job = {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": pod}}
    service = {"clusterIP": "None", "selector": labels}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    bodies = {"Job": {"spec": job}, "Service": {"spec": service}, "ConfigMap": {"data": {"a": "b"}}}
    return [
        {"apiVersion": KINDS[kind].version, "kind": kind, "metadata": metadata, **body}
        for kind, body in bodies.items()
    ]


def objects(plane: Plane) -> dict[str, str]:
    """Return the uid by kind and name of what was left behind; one that is going has none."""
    kinds = "jobs,pods,services,configmaps"
    selector = f"{naming.LABEL_RUN},!paddock.dev/record"
    place = ("--selector", selector, "--namespace", plane.lab.namespace)
    return {
        f"{one['kind']} {one['metadata']['name']}": uid_of(one)
        for one in plane.lab.testbed.get(kinds, *place)["items"]
    }


def all_made(plane: Plane) -> dict[str, str] | None:
    """Return the objects once each Job has its pod, and each pod runs."""
    found = objects(plane)
    place = ("--selector", naming.LABEL_RUN, "--namespace", plane.lab.namespace)
    pods = plane.lab.testbed.get("pods", *place)["items"]
    running = [one for one in pods if one["status"].get("phase") == "Running"]
    return found if len(running) == 4 and len(found) == 16 else None


def uid_of(manifest: dict[str, Any]) -> str:
    metadata = manifest["metadata"]
    return "" if "deletionTimestamp" in metadata else str(metadata["uid"])


def label_of(manifest: dict[str, Any], label: str) -> str:
    return str(manifest["metadata"].get("labels", {}).get(label, ""))
