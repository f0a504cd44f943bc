"""Every other command of `prime train` on runs, against the API: its output and its exit code."""

import json
from pathlib import Path

import pytest

from tests.runtime.control.api.fakes import FakeFeedback, seed_config
from tests.runtime.control.api.server import ApiServer
from tests.runtime.control.prime.client import Prime

pytestmark = pytest.mark.control


@pytest.fixture
def run_id(api: ApiServer, prime: Prime) -> str:
    """Dispatch a run as the client's user."""
    return api.dispatch(prime.token)


def test_list_shows_one_page_and_the_total(api: ApiServer, prime: Prime, run_id: str) -> None:
    newer = api.dispatch(prime.token)

    table = prime("train", "list", "-n", "1")
    listed = json.loads(prime("train", "ls", "--mine", "-p", "2", "-n", "1", "-o", "json").out)

    assert table.code == 0
    assert newer in table.out
    assert "reverse-text" in table.out
    assert run_id not in table.out
    assert [run["id"] for run in listed["runs"]] == [run_id]
    assert listed["total"] == 2


def test_get_shows_the_run(api: ApiServer, prime: Prime, run_id: str) -> None:
    table = prime("train", "get", run_id)
    run = json.loads(prime("train", "get", run_id, "-o", "json").out)["run"]

    assert table.code == 0
    for words in ("QUEUED (~0 runs ahead)", "Max Steps: 100", "GPUs: 2", "Batch Size: 64"):
        assert words in table.out
    assert run["kind"] == "DEDICATED_FULL_FT"
    assert run["queue_reason"] == "no cluster has 2 free GPUs"
    assert run["learning_rate"] == 3e-6


def test_get_shows_why_a_run_failed(api: ApiServer, prime: Prime, run_id: str) -> None:
    api.change(run_id, {"state": "FAILED", "reason": "trainer-0: see [deployment] [/x]"})

    said = prime("train", "get", run_id)

    assert said.code == 0, said.err
    assert "trainer-0: see (deployment) (/x)" in said.out


def test_names_with_brackets_are_shown_and_no_markup(api: ApiServer, prime: Prime) -> None:
    config = seed_config()
    config["model"] = {"name": "/models/tiny[/x]"}
    config["monitors"] = {"wandb": {"entity": "[/e]", "project": "p[/x]"}}
    run_id = api.dispatch(prime.token, config=config)
    api.change(run_id, {"cluster": "east[/x]"})

    said = {command: prime("train", *command.split()) for command in ("list", f"get {run_id}")}

    assert {found.code for found in said.values()} == {0}, said
    assert "/models/tiny(/x)" in said["list"].out
    for words in ("Model: /models/tiny(/x)", "W&B: (/e)/p(/x)", "Cluster: east(/x)"):
        assert words in said[f"get {run_id}"].out


def test_a_page_larger_than_any_is_the_largest(prime: Prime, run_id: str) -> None:
    listed = prime("train", "list", "-n", "1001")
    rollouts = prime("train", "rollouts", run_id, "-s", "1", "-n", "1001")

    assert (listed.code, rollouts.code) == (0, 0)
    assert run_id in listed.out
    assert json.loads(rollouts.out)["limit"] == 1000


def test_stop_ends_a_run_and_is_content_with_an_ended_one(prime: Prime, run_id: str) -> None:
    first = prime("train", "stop", run_id, "--force")
    second = prime("train", "stop", run_id, "--force")

    assert first.code == 0
    assert "stopped successfully" in first.out
    assert second.code == 0


def test_pause_and_resume(api: ApiServer, prime: Prime, run_id: str) -> None:
    early = prime("train", "pause", run_id, "--force")
    api.change(run_id, {"state": "RUNNING"})
    paused = prime("train", "pause", run_id, "--force")
    resumed = json.loads(prime("train", "resume", run_id, "-y", "-o", "json").out)

    assert early.code == 1
    assert "Error: only a RUNNING run can be paused" in early.out
    assert paused.code == 0
    assert "PAUSING" in paused.out
    assert resumed["run"]["runId"] == run_id


def test_restart_survives_a_reason_with_brackets(api: ApiServer, prime: Prime, run_id: str) -> None:
    refused = prime("train", "restart", run_id, "--force")
    api.change(run_id, {"state": "RUNNING"})
    restarted = prime("train", "restart", run_id, "--force")

    assert refused.code == 1
    assert "HTTP 409: (bold)only a RUNNING run restarts(/x)" in refused.out
    assert restarted.code == 0
    assert "PENDING" in restarted.out


def test_delete_forgets_a_run(prime: Prime, run_id: str) -> None:
    deleted = prime("train", "delete", run_id, "--force")
    gone = prime("train", "get", run_id)

    assert deleted.code == 0
    assert "deleted successfully" in deleted.out
    assert gone.code == 1
    assert "HTTP 404: Run not found" in gone.out


def test_another_users_run_is_not_found(
    api: ApiServer, prime: Prime, run_id: str, tmp_path: Path
) -> None:
    _, token = api.user("bob")
    bob = Prime(program=prime.program, url=prime.url, token=token, home=tmp_path)

    for command in ("get", "logs", "metrics", "usage"):
        said = bob("train", command, run_id)
        assert said.code == 1
        assert "Run not found" in said.out + said.err


def test_components_lists_orchestrator_and_env_servers(prime: Prime, run_id: str) -> None:
    said = prime("train", "components", run_id)

    assert said.code == 0
    for words in ("orchestrator", "reverse-text/0", "reverse-text/1", "Running"):
        assert words in said.out


def test_readings_are_json(prime: Prime, run_id: str) -> None:
    words = {
        "metrics": ("--min-step", "1", "-n", "5"),
        "rollouts": ("-s", "1"),
        "progress": (),
        "distributions": ("-t", "reward", "-s", "3"),
        "checkpoints": ("-s", "READY", "-o", "json"),
        "usage": ("-o", "json"),
    }

    said = {command: prime("train", command, run_id, *flags) for command, flags in words.items()}

    assert {found.code for found in said.values()} == {0}
    read = {command: json.loads(found.out) for command, found in said.items()}
    assert read["metrics"]["metrics"][0]["reward/mean"] == 0.5
    assert read["rollouts"]["total_pages"] == 3
    assert read["progress"]["latest_step"] == 3
    assert read["distributions"]["bins"][0]["count"] == 3
    assert [found["id"] for found in read["checkpoints"]["checkpoints"]] == ["ck10"]
    assert read["usage"]["total_cost_usd"] == 5.000001


def test_readings_are_tables(prime: Prime, run_id: str) -> None:
    checkpoints = prime("train", "checkpoints", run_id)
    usage = prime("train", "usage", run_id)

    assert "ck20" in checkpoints.out
    assert "1.0 KB" in checkpoints.out
    assert "$5.00" in usage.out


def test_models_and_gpus(prime: Prime) -> None:
    models = prime("train", "models")
    gpus = json.loads(prime("train", "gpus", "-o", "json").out)

    assert models.code == 0
    for words in ("Qwen/Qwen3-0.6B", "H100_80GB, H200_141GB", "$3.49", "busy"):
        assert words in models.out
    assert gpus == {"gpuTypes": ["H200_141GB", "H100_80GB"]}


def test_request_reaches_the_operators(api: ApiServer, prime: Prime) -> None:
    said = prime("train", "request", stdin="acme/large\nfor science\n")

    assert said.code == 0
    feedback = api.services.feedback
    assert isinstance(feedback, FakeFeedback)
    assert "acme/large" in feedback.notes[0].message


def test_whoami_names_the_user(prime: Prime) -> None:
    said = prime("whoami")

    assert said.code == 0
    assert "ada@example.com" in said.out


def test_volumes_are_made_listed_expanded_and_deleted(prime: Prime) -> None:
    made = prime("volumes", "create", "vol-b", "--size", "1Ti", "--cluster", "west")
    listed = prime("volumes", "list")
    expanded = prime("volumes", "expand", "vol-b", "--size", "2Ti")
    sessions = prime("volumes", "sessions", "vol-b")
    deleted = prime("volumes", "delete", "vol-b", "-y")
    left = json.loads(prime("volumes", "list", "-o", "json").out)

    assert "vol-b (1Ti) is CREATED" in made.out
    assert "CREATED" in listed.out
    assert "vol-b is now 2Ti" in expanded.out
    assert {said.code for said in (made, listed, expanded, sessions, deleted)} == {0}
    assert left == []
