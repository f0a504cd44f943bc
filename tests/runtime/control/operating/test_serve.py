"""`paddock serve` on a fresh home: the real client dispatches, the run ends and is torn down."""

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime import models
from runtime.claims import read_claims
from runtime.control.store import runs
from runtime.control.store.store import open_store
from runtime.states import Capture
from tests.engine.sites import ROOT, Site, make_site
from tests.runtime.control.operating.served import (
    RUN_S,
    START_S,
    Served,
    dispatch,
    read_run,
    serving,
    state_of,
)
from tests.runtime.control.prime.client import Prime, prime_program
from tests.runtime.control.reading.run_files import write_checkpoint
from tests.secret_search import files_with_value
from tests.waiting import killed_after, wait_for

pytestmark = pytest.mark.control

EXAMPLE = ROOT / "examples" / "reverse-text.toml"
SEED_MODEL = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
CANARY = "canary-7d20c1"
LOOK_S = 0.2
CHECKPOINTS = "\n[ckpt]\ninterval = 2\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster of four slots is up, with the model of the seed's example."""
    made = make_site(tmp_path_factory.mktemp("served"))
    models.add_model(SEED_MODEL, made.folder / "model", made.environment["PADDOCK_CACHE"])
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.kill_everything()


@pytest.fixture(scope="module")
def program() -> Path:
    """Install the client."""
    return prime_program()


def example(site: Site, behaviour: str) -> Path:
    """Write the seed's example under the name that tells the stand-in how to behave."""
    text = EXAMPLE.read_text().replace('"reverse-text-hosted"', f'"{behaviour}"', 1)
    path = site.folder / f"{behaviour}.toml"
    path.write_text(text)
    return path


def test_the_seeds_example_runs_to_its_end_and_is_torn_down(site: Site, program: Path) -> None:
    with serving(site) as served:
        prime = served.client("ada", program=program)
        run_id = dispatch(prime, example(site, "quick"), "-e", f"WANDB_API_KEY={CANARY}")
        seen: list[str] = []

        def is_over() -> bool:
            seen.append(state_of(prime, run_id))
            return seen[-1] in {"COMPLETED", "FAILED", "STOPPED"}

        wait_for(is_over, timeout_s=RUN_S)
        assert seen[-1] == "COMPLETED", "".join(served.lines)
        assert seen[0] in {"QUEUED", "PENDING"}
        wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
        wait_for(lambda: not (site.home / "projects" / run_id).exists(), timeout_s=RUN_S)
        logs = prime("train", "logs", run_id)
        assert "Orchestrator finished." in logs.out, logs.out + logs.err
        metrics = json.loads(prime("train", "metrics", run_id).out)["metrics"]
        assert [row["reward/mean"] for row in metrics] == [0.5]
        assert prime("train", "usage", run_id).code == 0
        said = prime("train", "models")
        assert SEED_MODEL in said.out
        assert json.loads(served.get("/readyz"))["status"] == "ready"

    site.assert_nothing_left()
    assert files_with_value(site.folder, CANARY) == []
    assert CANARY not in "".join(served.lines)


def test_a_run_is_paused_resumed_restarted_stopped_and_deleted(site: Site, program: Path) -> None:
    toml = example(site, "told")
    toml.write_text(toml.read_text() + CHECKPOINTS)
    with serving(site) as served:
        prime = served.client("kim", program=program)
        run_id = dispatch(prime, toml)
        files = site.local_run(run_id).directory
        assert "kim@example.com" in prime("whoami").out
        assert prime("train", "request", stdin="acme/large\nfor science\n").code == 0
        assert "acme/large" in (site.home / "feedback.jsonl").read_text()
        until(prime, run_id, "RUNNING", attempt=1)

        assert "Status: PAUSING" in succeeded(prime, "pause", run_id, "--force")
        until(prime, run_id, "PAUSING", attempt=1)  # for a checkpoint that is newer than this
        write_checkpoint(files, step=2)
        until(prime, run_id, "PAUSED", attempt=1)
        wait_for(lambda: read_claims(site.state) == ())

        resumed = json.loads(succeeded(prime, "resume", run_id, "-y", "-o", "json"))
        assert resumed["run"]["runId"] == run_id
        until(prime, run_id, "RUNNING", attempt=2)

        assert "restarting from checkpoint" in succeeded(prime, "restart", run_id, "--force")
        until(prime, run_id, "RUNNING", attempt=3)

        assert "Status: PAUSING" in succeeded(prime, "pause", run_id, "--force")
        until(prime, run_id, "PAUSING", attempt=3)
        write_checkpoint(files, step=4)
        until(prime, run_id, "PAUSED", attempt=3)
        assert "stopped successfully" in succeeded(prime, "stop", run_id, "--force")
        assert state_of(prime, run_id) == "STOPPED"

        assert "deleted successfully" in succeeded(prime, "delete", run_id, "--force")
        wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
        wait_for(lambda: "HTTP 404: Run not found" in get(prime, run_id), timeout_s=RUN_S)

    site.assert_nothing_left()
    assert lines_without_their_run(served, run_id) == []


def get(prime: Prime, run_id: str) -> str:
    """Return what `prime train get` says of a run that may be forgotten."""
    said = prime("train", "get", run_id)
    return said.out + said.err


def succeeded(prime: Prime, *words: str) -> str:
    """Return what a command of `prime train` printed, which has to succeed."""
    said = prime("train", *words)
    assert said.code == 0, said.out + said.err
    return said.out


def until(prime: Prime, run_id: str, state: str, *, attempt: int) -> None:
    """Wait until an attempt of a run is in a state."""

    def is_there() -> bool:
        time.sleep(LOOK_S)  # the server has better to do than to answer this
        run = read_run(prime, run_id)
        assert run["status"] != "FAILED", run
        return (run["status"], run["attempt"]) == (state, attempt)

    wait_for(is_there, timeout_s=RUN_S)


def lines_without_their_run(served: Served, run_id: str) -> list[str]:
    """Return the lines of the server's log that name a run and have not its field."""
    named = [line for line in served.lines if run_id in line and line.startswith("{")]
    assert named
    return [line for line in named if json.loads(line).get("run") != run_id]


def test_a_run_goes_on_while_its_server_is_away_and_is_stopped_by_the_next(
    site: Site, program: Path
) -> None:
    with serving(site) as served:
        prime = served.client("bob", program=program)
        run_id = dispatch(prime, example(site, "long"))
        wait_for(lambda: state_of(prime, run_id) == "RUNNING", timeout_s=RUN_S)
    with serving(site) as served:
        prime = replace(prime, url=served.url)
        assert state_of(prime, run_id) == "RUNNING"
        assert prime("train", "stop", run_id, "--force").code == 0
        wait_for(lambda: state_of(prime, run_id) == "STOPPED", timeout_s=RUN_S)
        wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)

    site.assert_nothing_left()


def test_a_second_server_on_sqlite_is_refused(site: Site) -> None:
    with serving(site) as served:
        assert served.url
        second = site.paddock("serve", "--port", "0", expect=3)

    assert "another server works on" in second.err
    assert "SQLite takes one" in second.err


def test_the_volume_that_a_dispatch_names_is_made_used_expanded_and_deleted(
    site: Site, program: Path
) -> None:
    def status(name: str) -> str:
        found = json.loads(prime("volumes", "list", "-o", "json").out)
        return next((one["status"] for one in found if one["name"] == name), "gone")

    toml = example(site, "quick")
    with serving(site) as served:
        prime = served.client("eve", program=program)
        made = ended(prime.start("train", str(toml), "-y", "--volume", "shelf"))
        busy = prime("volumes", "delete", "shelf", "-y")
        words = ("train", str(toml), "--volume", "rack", "--volume-size", "1Ti", "-o", "json")
        own = site.paddock(*words, expect=0, **as_user(prime))
        run_ids = {
            "shelf": made.partition("hosted run ")[2].split()[0],
            "rack": json.loads(own.out)["run"]["runId"],
        }
        for run_id in run_ids.values():
            wait_for(lambda run_id=run_id: state_of(prime, run_id) == "COMPLETED", timeout_s=RUN_S)
        folders = [*(site.home / "volumes").iterdir()]
        assert prime("volumes", "expand", "shelf", "--size", "6Ti").code == 0
        wait_for(lambda: status("shelf") == "RUNNING", timeout_s=RUN_S)
        for name, run_id in run_ids.items():
            record = Path("runs") / run_id / "record.json"
            assert [folder for folder in folders if (folder / record).exists()]
            wait_for(lambda one=run_id: one not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
            deleting = ("volumes", "delete", name, "-y")
            if name == "rack":
                holds_its_volume(site, prime, run_id, deleting)
            wait_for(lambda words=deleting: prime(*words).code == 0, timeout_s=RUN_S)
        for name in run_ids:
            wait_for(lambda name=name: status(name) == "gone", timeout_s=RUN_S)

    assert "Volume 'shelf' doesn't exist, creating it (5Ti)..." in made
    assert "Volume rack does not exist: making it" in own.err
    assert "Volume rack is PENDING" in own.err
    assert busy.code == 1
    assert f"is used by {run_ids['shelf']}" in busy.out
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)
    site.assert_nothing_left()


def holds_its_volume(site: Site, prime: Prime, run_id: str, deleting: tuple[str, ...]) -> None:
    """See that a run which was captured in part holds its volume, until it is deleted."""
    wait_for(lambda: read_run(prime, run_id)["teardown"] == "done", timeout_s=RUN_S)
    store = open_store(f"sqlite:///{site.home / 'control.db'}")
    with store.write() as tx:
        run = runs.get_run(tx, run_id)
        assert run is not None
        assert runs.compare_and_set(tx, run_id, run.version, capture=Capture.INCOMPLETE)
    store.close()

    said = prime(*deleting)
    own = site.paddock(*deleting, expect=None, **as_user(prime))

    words = f"has the only files of {run_id}, whose capture is not complete"
    assert (said.code, own.code) == (1, 7)
    assert (words in said.out, words in own.err) == (True, True), said.out + own.err
    assert "with `train delete RUN`" in own.err
    succeeded(prime, "delete", run_id, "--force")


def as_user(prime: Prime) -> dict[str, str]:
    """Return the variables by which `paddock` speaks as the user of the other client."""
    return {"PADDOCK_SERVER": prime.url, "PADDOCK_API_KEY": prime.token}


def ended(process: subprocess.Popen[str]) -> str:
    """Return what a command that waits for a volume printed, once it has ended well."""
    with killed_after(process, RUN_S + START_S):
        out, _ = process.communicate()
    assert process.returncode == 0, out
    return out
