"""pod_entry.py: cleaning, waiting for the other pods, and how a pod that cannot start ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runtime import pod_layout
from runtime.launch import pod_entry, wrapper
from tests.runtime.launch_pods.pod_site import TIMEOUT_S, Json, Site, document, folders
from tests.waiting import wait_for


def left(root: Path) -> set[str]:
    return {f"{path.parent.name}/{path.name}" for path in root.glob("[rb]*/step_*")}


def test_its_names_are_those_of_the_layout_and_the_wrapper() -> None:
    assert pod_entry.TERMINATION_LOG == pod_layout.TERMINATION_LOG
    assert pod_entry.JOB_INDEX_VARIABLE == pod_layout.JOB_INDEX_VARIABLE
    assert (pod_entry.READY, pod_entry.ORCHESTRATOR) == (wrapper.READY, wrapper.ORCHESTRATOR)


def test_pods_wait_for_each_other_and_for_the_cleaning(tmp_path: Path) -> None:
    site = Site(tmp_path)
    folders(site.run_dir, "rollouts/step_1", "broadcasts/step_2")

    trainer = site.start("prepare", "trainer")
    with pytest.raises(subprocess.TimeoutExpired):
        trainer.wait(1.5)
    orchestrator = site.start("prepare", "orchestrator")

    assert (orchestrator.wait(TIMEOUT_S), trainer.wait(TIMEOUT_S)) == (0, 0)
    assert "resolved []" in orchestrator.communicate()[0]
    trainer.communicate()
    assert left(site.run_dir) == set()


@pytest.mark.parametrize(
    ("changes", "kept", "words"),
    [
        ({"clean_past": "start"}, set(), "resolved []"),
        ({"clean_past": 3}, {"rollouts/step_2", "broadcasts/step_3"}, "resolved []"),
        (
            {"clean_past": "last", "resume": "last"},
            {"rollouts/step_2", "broadcasts/step_3", "rollouts/step_4"},
            "resolved ['--resume-step', '4']",
        ),
    ],
    ids=["anew", "as written", "last"],
)
def test_steps_past_what_is_resumed_are_removed(
    tmp_path: Path, changes: Json, kept: set[str], words: str
) -> None:
    site = Site(tmp_path, **changes, gate=False)
    folders(site.run_dir, "rollouts/step_2", "broadcasts/step_3", "rollouts/step_4")
    folders(site.run_dir, "rollouts/step_6", "rollouts/step_x")
    folders(site.run_dir / "checkpoints", "step_4/trainer", "step_4/orchestrator")
    folders(site.run_dir / "checkpoints", "step_6/trainer", ".step_8.tmp")  # torn by a kill

    process = site.start("prepare", "orchestrator")
    said, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0
    assert words in said
    assert left(site.run_dir) == {*kept, "rollouts/step_x"}


def test_a_refused_file_ends_the_pod_with_its_message(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (site.launch / "resolve.py").write_text("print('trainer.x: unknown'); raise SystemExit(2)")

    process = site.start("prepare", "orchestrator")
    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 2
    assert (site.verdict("orchestrator")["outcome"], site.verdict("orchestrator")["reason"]) == (
        "failed",
        "trainer.x: unknown",
    )
    status = json.loads((site.status / "orchestrator.json").read_text())
    assert (status["outcome"], status["exit_code"]) == ("failed", 2)
    assert not (site.status / pod_entry.READY).exists()


def test_a_pod_ends_when_another_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    pod = site.pod(monkeypatch, "trainer")
    site.status.mkdir(parents=True)
    failed = {"outcome": "failed", "reason": "trainer.x: unknown"}
    (site.status / "orchestrator.json").write_text(json.dumps(failed))
    monkeypatch.setattr(pod_entry, "FAILURE_STANDS_S", 0.0)

    found = pod_entry.wait_for_peers(pod, lambda seconds: None)

    assert found == ("ended", "orchestrator failed: trainer.x: unknown")


def test_a_failure_that_its_pod_takes_back_ends_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    pod = site.pod(monkeypatch, "trainer")
    site.status.mkdir(parents=True)
    stale = site.status / "orchestrator.json"
    stale.write_text('{"outcome": "failed", "reason": "of an earlier pod"}')

    def sleep(seconds: float) -> None:
        stale.unlink(missing_ok=True)
        for name in (pod_entry.READY, f"{pod_entry.PREPARED}orchestrator-0-0"):
            (site.status / name).touch()

    assert pod_entry.wait_for_peers(pod, sleep) == ("", "")


def test_a_pod_with_gpus_gives_them_back_and_names_for_whom_it_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    pod = site.pod(monkeypatch, "trainer")
    site.status.mkdir(parents=True)
    (site.status / pod_entry.READY).touch()
    monkeypatch.setattr(pod_entry, "PEERS_TIMEOUT_S", 0.0)

    outcome, reason = pod_entry.wait_for_peers(pod, lambda seconds: None)

    assert outcome == "failed"
    assert reason == "pod(s) orchestrator-0-0 did not start within 0 s: it gives its GPUs back"


def test_a_pod_without_gpus_waits_for_as_long_as_there_is_no_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    pod = site.pod(monkeypatch, "orchestrator")
    site.status.mkdir(parents=True)
    (site.status / pod_entry.READY).touch()
    monkeypatch.setattr(pod_entry, "PEERS_TIMEOUT_S", 0.0)
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            (site.status / f"{pod_entry.PREPARED}trainer-0-0").touch()

    assert pod_entry.wait_for_peers(pod, sleep) == ("", "")
    assert len(pauses) == 3


def test_waiting_ends_at_once_on_sigterm(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.status.mkdir(parents=True)
    (site.status / pod_entry.READY).touch()
    process = site.start("prepare", "trainer")
    wait_for(lambda: (site.status / f"{pod_entry.PREPARED}trainer-0-0").exists())

    process.terminate()

    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143


def test_environments_that_cannot_be_installed_are_told_to_all(tmp_path: Path) -> None:
    site = Site(tmp_path)
    code = "print('no version of math-env'); raise SystemExit(1)"

    process = site.start("packages", "orchestrator", sys.executable, "-c", code)
    said, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 2
    assert said == "no version of math-env\n"
    assert "no version of math-env" in site.verdict("orchestrator")["reason"]
    assert (site.status / "orchestrator.json").exists()


def test_environments_that_install_say_nothing_to_kubelet(tmp_path: Path) -> None:
    site = Site(tmp_path)

    process = site.start("packages", "orchestrator", sys.executable, "-c", "pass")

    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert not (tmp_path / "end-orchestrator").exists()


def test_a_pod_that_launch_json_does_not_know_says_so(tmp_path: Path) -> None:
    site = Site(tmp_path)

    process = site.start("run", "router")
    process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 2
    assert "no pod router-0-0" in site.verdict("router")["reason"]


def test_the_component_gets_its_own_environment_and_many_files(tmp_path: Path) -> None:
    code = (
        "import os, resource\n"
        "print(os.environ['WANDB_SHARED_LABEL'], resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    command = {"argv": [sys.executable, "-c", code], "env": {"WANDB_SHARED_LABEL": "trainer"}}
    site = with_commands(tmp_path, [command])

    process = site.start("run", "trainer")
    said, _ = process.communicate(timeout=TIMEOUT_S)

    label, limit = said.split()
    assert (process.returncode, label) == (0, "trainer")
    assert int(limit) > 1024
    assert site.verdict("trainer")["outcome"] == "completed"
    assert (site.run_dir / "logs/attempt_1/x.log").read_text() == said


def with_commands(path: Path, commands: list[Json]) -> Site:
    pods = document(path / "run")["pods"]
    pods["trainer-0-0"]["commands"] = commands
    return Site(path, pods=pods)


def test_the_processes_of_a_pod_end_with_the_first_of_them(tmp_path: Path) -> None:
    wait = "import time; print('up', flush=True); time.sleep(600)"
    end = "import os, time; time.sleep(1); print(os.environ['RANK_OF'], 'x' * 60000); os._exit(3)"
    site = with_commands(
        tmp_path,
        [
            {"argv": [sys.executable, "-c", wait], "env": {}},
            {"argv": [sys.executable, "-u", "-c", end], "env": {"RANK_OF": "second"}},
        ],
    )

    process = site.start("run", "trainer")
    said, _ = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 3
    assert "[rank 0] up\n" in said
    assert f"[rank 1] second {'x' * 60000}\n" in said
    assert "ranks: rank 1 ended with code 3: ending the others" in said


def test_the_processes_of_a_pod_obey_sigterm(tmp_path: Path) -> None:
    wait = "import time; print('up', flush=True); time.sleep(600)"
    command = {"argv": [sys.executable, "-c", wait], "env": {}}
    site = with_commands(tmp_path, [command, command])
    log = site.run_dir / "logs/attempt_1/x.log"
    process = site.start("run", "trainer")
    wait_for(lambda: log.exists() and log.read_text().count("up") == 2)

    process.terminate()

    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143
    assert site.verdict("trainer")["reason"] == "it was asked to by SIGTERM"
