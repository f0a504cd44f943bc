"""What a run has measured, and what can be had, over HTTP, in the client's shapes."""

import pytest

from runtime.control.readings import TokenCount, Usage
from runtime.control.requests import FeedbackNote, StepRange
from runtime.control.store import wallets
from runtime.control.values import EntryKind
from tests.runtime.control.api.fake_readings import FakeReads
from tests.runtime.control.api.fakes import FakeFeedback
from tests.runtime.control.api.server import ApiServer, Person


def test_metrics_are_passed_on_with_null_for_nan(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)
    path = f"/rft/runs/{run_id}/metrics?min_step=1&max_step=9&limit=5"

    status, answer = server.ask("GET", path, ada.token)

    assert status == 200
    assert answer == {
        "metrics": [{"step": 1, "reward/mean": 0.5, "loss": None, "note": "half \ufffd"}]
    }
    reads = server.services.reads
    assert isinstance(reads, FakeReads)
    assert reads.step_ranges == [StepRange(first=1, last=9, limit=5)]


def test_rollouts_are_paged_in_snake_case(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    _, answer = server.ask("GET", f"/rft/runs/{run_id}/samples?step=1&page=2&limit=100", ada.token)

    assert answer == {
        "run_id": run_id,
        "samples": [{"prompt": "p", "completion": "c", "reward": 1.0}],
        "total": 201,
        "page": 2,
        "limit": 100,
        "total_pages": 3,
    }


@pytest.mark.parametrize(
    ("limit", "status", "echoed"), [(0, 422, None), (1000, 200, 1000), (10**6, 200, 1000)]
)
def test_a_page_has_at_most_1000_and_says_so(
    server: ApiServer, ada: Person, limit: int, status: int, echoed: int | None
) -> None:
    run_id = server.dispatch(ada.token)

    answers = [
        server.ask("GET", f"/rft/runs?limit={limit}", ada.token),
        server.ask("GET", f"/rft/runs/{run_id}/samples?step=1&limit={limit}", ada.token),
    ]

    assert [(code, answer.get("limit")) for code, answer in answers] == [(status, echoed)] * 2


def test_progress_is_in_camel_case(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    _, answer = server.ask("GET", f"/rft/runs/{run_id}/progress", ada.token)

    assert answer == {
        "latestStep": 3,
        "stepsWithSamples": [1, 2],
        "stepsWithDistributions": [1],
        "lastUpdatedAt": "2026-11-29T12:00:00.000000Z",
    }


def test_distributions_have_bins_and_a_step(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    _, answer = server.ask(
        "GET", f"/rft/runs/{run_id}/distributions?type=staleness&step=7", ada.token
    )

    assert answer == {"bins": [{"bin": 0.5, "count": 3, "kind": "staleness"}], "step": 7}


def test_checkpoints_are_filtered_by_status(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    _, ready = server.ask("GET", f"/rft/runs/{run_id}/checkpoints?status_filter=ready", ada.token)
    _, every = server.ask("GET", f"/rft/runs/{run_id}/checkpoints", ada.token)

    assert [found["id"] for found in ready["checkpoints"]] == ["ck10"]
    assert [found["step"] for found in every["checkpoints"]] == [10, 20]
    assert every["checkpoints"][0]["rftRunId"] == run_id
    assert every["checkpoints"][0]["createdAt"].endswith("Z")


def test_env_servers_and_all_components_are_listed(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    _, answer = server.ask("GET", f"/rft/runs/{run_id}/env-servers", ada.token)

    assert [found["env_index"] for found in answer["env_servers"]] == [0, 1]
    assert {found["role"] for found in answer["components"]} == {"trainer", "env"}


def test_usage_has_the_exact_cost_and_gpu_hours(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)

    _, answer = server.ask("GET", f"/billing/runs/{run_id}/usage", ada.token)

    assert answer["run_id"] == run_id
    assert answer["training"]["tokens"] == 1200
    assert answer["inference"]["output_tokens"] == 4
    assert answer["total_tokens"] == 1234
    assert answer["total_cost_microusd"] == 5_000_001
    assert answer["total_cost_usd"] == 5.000001
    assert answer["gpu_hours"] == 2.0
    assert answer["pricing"]["training_per_mtok"] is None


def test_tokens_that_a_run_does_not_tell_are_left_out(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)
    reads = server.services.reads
    assert isinstance(reads, FakeReads)
    reads.used = Usage(training=TokenCount(input_tokens=12))

    _, answer = server.ask("GET", f"/billing/runs/{run_id}/usage", ada.token)

    assert answer["training"] == {"tokens": 12, "input_tokens": 12, "cost_usd": 0.0}
    assert answer["inference"] == {"cost_usd": 0.0}
    assert "total_tokens" not in answer


def test_models_and_gpu_types_are_listed(server: ApiServer, ada: Person) -> None:
    _, models = server.ask("GET", "/training/available-fft-models", ada.token)
    _, gpus = server.ask("GET", "/training/available-gpu-types", ada.token)

    (model,) = models["models"]
    assert [found["clusterId"] for found in model["clusters"]] == ["east", "west"]
    assert [found["availableNow"] for found in models["onDemand"]] == [True, False]
    assert models["onDemand"][0]["pricePerGpuHour"] == 3.49
    assert gpus == {"gpuTypes": ["H200_141GB", "H100_80GB"]}


def test_a_volume_is_made_listed_expanded_and_deleted(server: ApiServer, ada: Person) -> None:
    path = "/training/volumes"
    body = {"name": "vol-a", "size": "1Ti", "warm": True, "cluster": "west"}

    made = server.ask("POST", path, ada.token, json=body)
    again = server.ask("POST", path, ada.token, json=body)
    larger = server.ask("PATCH", f"{path}/vol-a", ada.token, json={"size": "2Ti"})
    listed = server.ask("GET", path, ada.token)
    deleted = server.ask("DELETE", f"{path}/vol-a", ada.token)
    missing = server.ask("DELETE", f"{path}/vol-a", ada.token)

    assert made[0] == 201
    assert (made[1]["status"], made[1]["clusterId"], made[1]["pvcName"]) == (
        "RUNNING",
        "west",
        "pvc-vol-a",
    )
    assert again[0] == 409
    assert larger[1]["size"] == "2Ti"
    assert [found["createdByEmail"] for found in listed[1]["volumes"]] == ["ada@example.com"]
    assert deleted == (204, {})
    assert missing == (404, {"detail": "Volume not found"})


def test_a_run_shows_the_name_that_its_user_gave_the_volume(server: ApiServer, ada: Person) -> None:
    server.ask("POST", "/training/volumes", ada.token, json={"name": "vol-a"})
    run_id = server.dispatch(ada.token, volume="vol-a")
    without = server.dispatch(ada.token)

    def shown() -> list[str | None]:
        _, listed = server.ask("GET", "/rft/runs", ada.token)
        _, one = server.ask("GET", f"/rft/runs/{run_id}", ada.token)
        by_id = {run["id"]: run["volumeName"] for run in listed["runs"]}
        return [by_id[run_id], one["run"]["volumeName"], by_id[without]]

    assert str(server.stored(run_id).settings["volume"]).startswith("volume-")
    assert shown() == ["vol-a", "vol-a", None]
    server.ask("DELETE", "/training/volumes/vol-a", ada.token)
    assert shown() == [None, None, None]


def test_a_volume_name_is_a_dns_label(server: ApiServer, ada: Person) -> None:
    names = ["", "-a", "a-", "A", "a_b", "a" * 64, "a/b", "\u00e9"]

    answers = [
        server.ask("POST", "/training/volumes", ada.token, json={"name": name}) for name in names
    ]

    assert {status for status, _ in answers} == {422}
    assert all("[" not in answer["detail"][0]["msg"] for _, answer in answers)


def test_shells_and_transfers_of_a_volume_are_none(server: ApiServer, ada: Person) -> None:
    path = "/training/volumes/vol-a"

    assert server.ask("GET", f"{path}/sessions", ada.token) == (200, {"sessions": []})
    assert server.ask("GET", f"{path}/transfers", ada.token) == (200, {"transfers": []})
    assert server.ask("DELETE", f"{path}/sessions/s1", ada.token)[0] == 404
    assert server.ask("DELETE", f"{path}/transfers/t1", ada.token)[0] == 404


def test_whoami_names_the_user_and_the_teams(server: ApiServer, ada: Person) -> None:
    team = server.team("crew", ada.user)

    _, answer = server.ask("GET", "/user/whoami", ada.token)

    assert answer["data"]["id"] == ada.user.user_id
    assert answer["data"]["email"] == "ada@example.com"
    assert [found["id"] for found in answer["data"]["teams"]] == [team.team_id]


def test_whoami_has_the_balance_of_the_wallet_that_pays(server: ApiServer, ada: Person) -> None:
    team = server.team("crew", ada.user)
    with server.store.write() as tx:
        for owner, amount in ((f"user/{ada.user.user_id}", 7), (f"team/{team.team_id}", 9)):
            kind = EntryKind.CREDIT
            paid = wallets.Movement(wallet_id=owner, key=owner, kind=kind, amount_microusd=amount)
            wallets.post(tx, paid)

    own = server.ask("GET", "/user/whoami", ada.token)[1]
    of_team = server.ask("GET", f"/user/whoami?teamId={team.team_id}", ada.token)[1]

    assert (own["data"]["balance_microusd"], of_team["data"]["balance_microusd"]) == (7, 9)


def test_feedback_is_kept(server: ApiServer, ada: Person) -> None:
    body = {"message": "more", "category": "feature", "cli_version": "0.18.0", "run_id": None}

    assert server.ask("POST", "/feedback", ada.token, json=body) == (200, {})

    feedback = server.services.feedback
    assert isinstance(feedback, FakeFeedback)
    assert feedback.notes == [FeedbackNote(message="more", category="feature")]
