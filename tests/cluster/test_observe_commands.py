"""The run commands of the CLI find a run in pods by its stack's settings alone, and work on it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runtime.states import RunState
from tests.cluster.observed_runs import Observed, observe, says
from tests.interruptible import interruptible
from tests.testbed.cluster import Cluster
from tests.waiting import killed_after, wait_for

pytestmark = pytest.mark.cluster
PADDOCK = str(Path(sys.executable).with_name("paddock"))


@pytest.fixture(scope="module")
def observed(cluster: Cluster) -> Iterator[Observed]:
    name = cluster.make_namespace("commands")
    with observe(cluster, name) as made:
        yield made
    cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def project(observed: Observed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a cluster stack's settings and those of a run, and no backend."""
    root = tmp_path_factory.mktemp("project")
    (root / "stacks").mkdir()
    (root / "Pulumi.yaml").write_text("name: paddock\nruntime: python\n")
    kubeconfig = yaml.safe_load(observed.cluster.kubeconfig.read_text())
    cluster = {"kind": "cluster", "target": "kubernetes", "context": kubeconfig["current-context"]}
    write(root, "lab", {**cluster, "namespace": observed.api.namespace})
    write(root, "known", {"kind": "run", "cluster": "lab", "config": "rl.toml"})
    return root


def write(root: Path, stack: str, settings: dict[str, str]) -> None:
    config = {f"paddock:{key}": value for key, value in settings.items()}
    path = root / "stacks" / f"Pulumi.{stack}.yaml"
    path.write_text(yaml.safe_dump({"config": config}))


def environment(observed: Observed, project: Path) -> dict[str, str]:
    home = str(project / "home")
    kubeconfig = str(observed.cluster.kubeconfig)
    return {**os.environ, "KUBECONFIG": kubeconfig, "PADDOCK_HOME": home}


def paddock(observed: Observed, project: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PADDOCK, *argv],
        cwd=project,
        env=environment(observed, project),
        capture_output=True,
        text=True,
        timeout=120,
    )


def started(observed: Observed, project: Path, *argv: str) -> "subprocess.Popen[str]":
    with interruptible():
        return subprocess.Popen(
            [PADDOCK, *argv],
            cwd=project,
            env=environment(observed, project),
            stderr=subprocess.PIPE,
            text=True,
        )


def test_wait_follows_a_run_that_fails_and_shows_its_last_words(observed: Observed, project: Path):
    run = observed.start("known", trainer=f"import time; time.sleep(3); {says('failed', code=2)}")

    done = paddock(observed, project, "wait", "known")

    assert done.returncode == 1, done.stderr
    assert f"known FAILED: trainer-0 (pod {run.pod('trainer')} on " in done.stdout
    assert "  last words" in done.stdout
    assert "QUEUED" in done.stderr
    assert "FAILED" in done.stderr


def test_a_run_without_settings_is_found_by_its_record(observed: Observed, project: Path):
    run = observed.start("stranger")
    run.wait(RunState.RUNNING)

    shown = paddock(observed, project, "components", "stranger", "-o", "json")
    lines = paddock(observed, project, "logs", "stranger", "-c", "trainer-0")
    stopped = paddock(observed, project, "stop", "stranger")

    assert [row["state"] for row in json.loads(shown.stdout)] == ["running", "running"]
    assert lines.stdout == "here I am\n"
    assert "reading the log of pod" in lines.stderr
    assert stopped.returncode == 0, stopped.stderr
    assert run.record().state is RunState.STOPPED
    assert run.num_live_pods() == 0


def test_an_unknown_run_and_an_unknown_component_are_named(observed: Observed, project: Path):
    observed.start("with-parts").wait(RunState.RUNNING)

    nowhere = paddock(observed, project, "wait", "nowhere")
    no_part = paddock(observed, project, "logs", "with-parts", "-c", "router")

    assert nowhere.returncode == 4
    assert "no run nowhere" in nowhere.stderr
    assert no_part.returncode == 2
    assert "it has orchestrator, trainer-0" in no_part.stderr


def test_ctrl_c_ends_the_waiting_and_not_the_run(observed: Observed, project: Path):
    run = observed.start("goes-on")
    run.wait(RunState.RUNNING)
    with started(observed, project, "wait", "goes-on") as process, killed_after(process):
        stderr = process.stderr
        assert stderr is not None
        wait_for(lambda: "RUNNING" in stderr.readline())
        process.send_signal(signal.SIGINT)
        rest = stderr.read()

    assert process.returncode == 130
    assert "goes-on goes on" in rest
    assert "Traceback" not in rest
    assert run.record().state is RunState.RUNNING


def test_gpus_of_a_cluster_are_listed(observed: Observed, project: Path):
    shown = paddock(observed, project, "gpus", "--cluster", "lab", "-o", "json")

    found = json.loads(shown.stdout)
    assert {row["name"] for row in found["types"]} >= {"H200_141GB"}
    assert all(row["free"] <= row["total"] for row in found["types"])


def test_reconcile_looks_once_and_ends(observed: Observed, project: Path):
    done = paddock(observed, project, "reconcile", "--cluster", "lab", "--once")

    assert done.returncode == 0, done.stderr
    assert "open runs were looked at" in done.stderr


def test_reconcile_observes_until_it_is_ended(observed: Observed, project: Path):
    argv = ("reconcile", "--cluster", "lab")
    with started(observed, project, *argv) as process, killed_after(process):
        stderr = process.stderr
        assert stderr is not None
        assert "observing the runs of namespace" in stderr.readline()
        run = observed.start("watched", trainer=says("failed", code=1))
        shown = wait_for(lambda: line if "watched" in (line := stderr.readline()) else "")
        process.terminate()
        stderr.read()

    assert process.returncode == 0
    assert "watched attempt 1" in shown
    run.wait(RunState.FAILED)
