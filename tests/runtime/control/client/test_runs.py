"""The other commands of `paddock train`, and `volumes`: the seed's words, and their JSON."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runtime.control.readings import LogPage
from runtime.control.requests import LogQuery
from runtime.run_record import ExitDetails
from runtime.states import RunState
from tests.runtime.control.api.fake_readings import FakeReads
from tests.runtime.control.api.fakes import FakeIntents
from tests.runtime.control.api.server import ApiServer
from tests.runtime.control.client.command import Paddock
from tests.runtime.control.client.conftest import SEED

pytestmark = pytest.mark.control


def reads(api: ApiServer) -> FakeReads:
    """Return what the API reads from."""
    found = api.services.reads
    assert isinstance(found, FakeReads)
    return found


def test_runs_are_listed_page_by_page(as_ada: Paddock, run_id: str) -> None:
    second = as_ada.train(str(SEED), "-o", "json").json()["run"]["runId"]

    first_page = as_ada.train("list", "--num", "1")
    all_runs = as_ada.train("list", "--mine")
    no_more = as_ada.train("list", "--page", "3")
    as_json = as_ada.train("list", "-n", "1", "-p", "2", "-o", "json").json()

    assert second in first_page.out
    assert run_id not in first_page.out
    assert "Use --page 2 to see more." in first_page.out
    assert "Total: 2 run(s)" in all_runs.out
    assert {"QUEUED", "reverse-text", "100"} <= set(all_runs.out.split())
    assert no_more.out == "No more results.\n"
    assert [run["id"] for run in as_json["runs"]] == [run_id]
    assert (as_json["total"], as_json["page"], as_json["per_page"]) == (2, 2, 1)


def test_a_run_is_shown_with_its_place_in_the_queue(as_ada: Paddock, run_id: str) -> None:
    second = as_ada.train(str(SEED), "-o", "json").json()["run"]["runId"]

    shown = as_ada.train("get", second).out
    as_json = as_ada.train("get", second, "-o", "json").json()["run"]

    assert "  Status: QUEUED (1 runs ahead)" in shown
    assert "  Reason: no cluster has 2 free GPUs" in shown
    assert "  Max Steps: 100" in shown
    assert (as_json["runs_ahead"], as_json["max_steps"], as_json["gpu_count"]) == (1, 100, 2)


def test_a_failed_run_is_shown_with_its_reason(
    as_ada: Paddock, api: ApiServer, run_id: str
) -> None:
    details = ExitDetails(
        component="trainer-0", exit_code=None, signal="SIGKILL", last_lines=("\x1b[31mout", "of")
    )
    reason = "trainer-0 was killed [x]"
    changes = {"state": RunState.FAILED, "reason": reason, "exit_details": details}
    api.change(run_id, changes)

    shown = as_ada.train("get", run_id).out

    assert "  Status: FAILED" in shown
    assert "  Reason: trainer-0 was killed (x)" in shown
    assert "Root Cause: trainer-0 ended with signal SIGKILL" in shown
    assert "    out\n    of\n" in shown


def test_a_run_is_stopped_and_deleted(as_ada: Paddock, run_id: str) -> None:
    declined = as_ada("train", "stop", run_id, stdin="n\n")
    unanswered = as_ada("train", "stop", run_id)
    stopped = as_ada("train", "stop", run_id, stdin="y\n")
    again = as_ada.train("stop", run_id, "-f", "-o", "json").json()
    deleted = as_ada.train("delete", run_id, "--force")
    gone = as_ada("train", "get", run_id)

    assert (declined.code, declined.out) == (0, "Cancelled.\n")
    assert (unanswered.code, "pass --force" in unanswered.err) == (2, True)
    assert stopped.out == f"Run {run_id} stopped successfully\nStatus: STOPPED\n"
    assert again["run"]["status"] == "STOPPED"
    assert deleted.out == f"Run {run_id} deleted successfully\n"
    assert (gone.code, gone.err) == (4, "error: Run not found\n")


def test_a_run_is_paused_resumed_and_restarted(
    as_ada: Paddock, api: ApiServer, run_id: str
) -> None:
    early = as_ada("train", "pause", run_id, "-f")
    api.change(run_id, {"state": RunState.RUNNING})
    restarted = as_ada.train("restart", run_id, "-f")
    api.change(run_id, {"state": RunState.RUNNING})
    paused = as_ada.train("pause", run_id, "-f")
    resumed = as_ada.train("resume", run_id, "-e", "K=v", "--gpu-type", "H100_80GB")

    intents = api.services.intents
    assert isinstance(intents, FakeIntents)
    assert early.code == 7
    assert "only a RUNNING run can be paused, this one is QUEUED" in early.err
    assert restarted.out == f"Run {run_id} restarting from checkpoint\nStatus: PENDING\n"
    assert paused.out.startswith(f"Run {run_id} is pausing\nStatus: PAUSING\n")
    assert f"Once PAUSED, resume with: paddock train resume {run_id}" in paused.out
    assert resumed.out.startswith(f"Resumed hosted run {run_id}\n")
    assert intents.resumed[0].secrets == {"K": "v"}
    assert intents.resumed[0].gpu_type == "H100_80GB"


def test_measurements_are_json(as_ada: Paddock, api: ApiServer, run_id: str) -> None:
    metrics = as_ada.train("metrics", run_id, "--min-step", "1", "-n", "5").json()
    rollouts = as_ada.train("rollouts", run_id, "-s", "2", "-p", "2", "-n", "50").json()
    progress = as_ada.train("progress", run_id).json()
    distributions = as_ada.train("distributions", run_id, "-t", "staleness", "-s", "2").json()

    assert metrics["metrics"][0]["reward/mean"] == 0.5
    assert (reads(api).step_ranges[0].first, reads(api).step_ranges[0].limit) == (1, 5)
    assert rollouts == {
        "run_id": run_id,
        "samples": [{"prompt": "p", "completion": "c", "reward": 1.0}],
        "total": 201,
        "page": 2,
        "limit": 50,
        "total_pages": 5,
    }
    assert (progress["latest_step"], progress["steps_with_samples"]) == (3, [1, 2])
    assert distributions == {"bins": [{"bin": 0.5, "count": 3, "kind": "staleness"}], "step": 2}


def test_checkpoints_usage_and_components_are_tables(as_ada: Paddock, run_id: str) -> None:
    checkpoints = as_ada.train("checkpoints", run_id).out
    pending = as_ada.train("checkpoints", run_id, "-s", "PENDING", "-o", "json").json()
    usage = as_ada.train("usage", run_id).out
    exact = as_ada.train("usage", run_id, "-o", "json").json()
    components = as_ada.train("components", run_id).out

    assert "step_10" in checkpoints
    assert "1.0 KiB" in checkpoints
    assert [found["step"] for found in pending["checkpoints"]] == [20]
    assert "GPU-hours: 2.000" in usage
    assert "Cost: $5.000001" in usage
    assert (exact["gpu_hours"], exact["total_cost_microusd"]) == (2.0, 5_000_001)
    assert {"trainer-0", "reverse-text/0", "reverse-text/1"} <= set(components.split())


def test_logs_are_made_readable_and_their_flags_sent(
    as_ada: Paddock, api: ApiServer, run_id: str
) -> None:
    readable = as_ada.train("logs", run_id).out
    raw = as_ada.train("logs", run_id, "--raw", "-c", "trainer", "--all").out
    as_ada.train("logs", run_id, "--env", "reverse-text/1", "--level", "error", "--since", "1h")
    as_ada.train("logs", run_id, "--search", "Step \\d", "--regex", "-n", "7")

    assert readable.splitlines()[0] == "12:00:01 INFO    Step 1 | reward 0.5"
    assert "plain [line]" in readable
    assert raw.startswith('{"timestamp"')
    first, second, third, fourth = reads(api).log_queries
    assert first == LogQuery()
    assert second == LogQuery(component="trainer", num_lines=5000)
    assert (third.env_name, third.index, third.level, third.since_s) == (
        "reverse-text",
        1,
        "ERROR",
        3600,
    )
    assert (fourth.search, fourth.is_regex, fourth.num_lines) == ("Step \\d", True, 7)


@pytest.mark.parametrize("zone", ["Z", "", "+00:00"])
def test_logs_begin_at_a_point_in_time(
    as_ada: Paddock, api: ApiServer, run_id: str, zone: str
) -> None:
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)

    as_ada.train("logs", run_id, "--since", f"{an_hour_ago:%Y-%m-%dT%H:%M:%S}{zone}")
    as_ada.train("logs", run_id, "--since", "0001-01-01")

    first, second = (asked.since_s for asked in reads(api).log_queries)
    assert first is not None
    assert second is not None
    assert 3600 <= first < 7200
    assert second > 86_400 * 365


def test_no_line_is_younger_than_the_future(as_ada: Paddock, api: ApiServer, run_id: str) -> None:
    said = as_ada.train("logs", run_id, "-f", "--since", "2999-01-01T00:00:00+02:00")

    assert said.out == ""
    assert "warning: --since 2999-01-01T00:00:00+02:00 lies in the future" in said.err
    assert reads(api).log_queries == []


def test_following_ends_with_the_run(as_ada: Paddock, api: ApiServer, run_id: str) -> None:
    api.change(run_id, {"state": RunState.COMPLETED})
    reads(api).log_page = LogPage(text="one\ntwo\n")

    said = as_ada.train("logs", run_id, "-f")

    assert said.out == "one\ntwo\n"


def test_logs_of_a_queued_run_are_no_error(as_ada: Paddock, api: ApiServer, run_id: str) -> None:
    reads(api).log_page = LogPage(text="", has_started=False)

    said = as_ada.train("logs", run_id)

    assert said.out == ""
    assert "Run is queued" in said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--regex"], "--regex: needs"),
        (["--level", "LOUD"], "none of ERROR"),
        (["--since", "soon"], "'soon' is not a time"),
        (["-c", "gpu"], "none of orchestrator"),
        (["-c", "env-server"], "needs --env NAME"),
        (["-c", "trainer", "--env", "x"], "names an env server"),
    ],
)
def test_a_wrong_flag_of_logs_is_refused(as_ada: Paddock, flags: list[str], words: str) -> None:
    said = as_ada("train", "logs", "some-run", *flags)

    assert said.code == 2
    assert words in said.err


def test_models_and_gpus_are_listed(as_ada: Paddock) -> None:
    models = as_ada.train("models").out
    gpus = as_ada.train("gpus").out
    as_json = as_ada.train("models", "-o", "json").json()

    assert "Qwen/Qwen3-0.6B" in models
    assert "H100_80GB, H200_141GB" in models
    assert ["H200_141GB", "3.49", "available"] in [line.split() for line in models.splitlines()]
    assert gpus == "H200_141GB\nH100_80GB\n"
    assert as_json["on_demand"][1]["available_now"] is False


def test_volumes_are_made_and_removed(as_ada: Paddock, tmp_path: Path) -> None:
    made = as_ada("volumes", "create", "results", "--size", "500Gi")
    twice = as_ada("volumes", "create", "results")
    grown = as_ada("volumes", "expand", "results", "--size", "1Ti")
    listed = as_ada("volumes", "list", "-o", "json").json()
    deleted = as_ada("volumes", "delete", "results", "-y")
    gone = as_ada("volumes", "delete", "results", "-y")

    assert made.out.startswith("Volume results (500Gi) is CREATED.\n")
    assert twice.code == 7
    assert grown.out == "Volume results is now 1Ti.\n"
    assert [(volume["name"], volume["size"]) for volume in listed] == [("results", "1Ti")]
    assert deleted.out == "Deleting volume results.\n"
    assert (gone.code, gone.err) == (4, "error: Volume not found\n")
    assert "No volumes." in as_ada("volumes", "list").out
