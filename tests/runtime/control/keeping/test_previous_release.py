"""Runs of the previous release, observed, captured and destroyed by this one.

The site is a recorded one (tests/data/previous_release): a real server of that release wrote its
database, its stacks and its run directories.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from runtime.control.store import schema
from tests.runtime.control.keeping.previous import (
    DATA,
    Recorded,
    add_to_config,
    caller,
    put_back,
    supervised,
)
from tests.runtime.control.operating.served import RUN_S, serving
from tests.waiting import wait_for

pytestmark = pytest.mark.control

REFUSED_NOW = '[orchestrator.model.client.headers]\nAuthorization = "Bearer of-then"\n'
"""What that release let a user bring in."""


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Recorded]:
    """Yield the recorded site."""
    made = put_back(tmp_path)
    yield made
    made.site.kill_everything()


def revision(path: Path) -> str:
    """Return the revision of a database."""
    with closing(connect(path)) as connection:
        return connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]


def test_what_was_recorded_is_of_no_machine() -> None:
    text = (DATA / "files.json").read_text() + (DATA / "database.sql").read_text()

    assert "@HOME@" in text
    assert not [word for word in ("/root", "/home", "/work", "/usr", "/tmp") if word in text]


def test_its_runs_are_observed_captured_and_destroyed(recorded: Recorded) -> None:
    site, ids = recorded.site, recorded.ids
    add_to_config(recorded, ids["queued"], REFUSED_NOW)
    with supervised(recorded, ids["live"]) as heard, serving(site) as served:
        ada = caller(served)
        assert ada.ask("/rft/runs")["total"] == len(ids)
        assert revision(recorded.database) == schema.newest_revision()

        for name in ("orphaned", "queued"):
            wait_for(lambda run_id=ids[name]: ada.is_done_with(run_id), timeout_s=RUN_S)
        assert ada.run(ids["live"])["status"] == "RUNNING"
        assert not heard.exists()
        ada.ask(f"/rft/runs/{ids['live']}/stop", method="PUT")
        wait_for(lambda: ada.is_done_with(ids["live"]), timeout_s=RUN_S)

        runs = {name: ada.run(run_id) for name, run_id in ids.items()}
        logs = {name: ada.ask(f"/rft/runs/{run_id}/logs")["logs"] for name, run_id in ids.items()}
        usage = {name: ada.ask(f"/billing/runs/{run_id}/usage") for name, run_id in ids.items()}
        (row,) = ada.ask(f"/rft/runs/{ids['finished']}/metrics")["metrics"]

    assert [json.loads(line)["op"] for line in heard.read_text().splitlines()] == ["stop"]
    assert {name: run["status"] for name, run in runs.items()} == {
        "finished": "COMPLETED",
        "orphaned": "FAILED",
        "queued": "COMPLETED",
        "live": "STOPPED",
    }
    assert runs["orphaned"]["errorMessage"]
    assert all("this is a stand-in" in text for text in logs.values())
    assert row["reward/mean"] == 0.5
    assert all(one["gpu_hours"] > 0 for one in usage.values())
    stacks = [one["name"] for one in json.loads(site.pulumi("stack", "ls", "--json").out)]
    assert stacks == [site.cluster]
    assert not [path for run_id in ids.values() for path in site.home.glob(f"projects/{run_id}")]
    site.assert_nothing_left()
    site.pulumi("destroy", "-s", site.cluster)
    assert not site.state.exists()
