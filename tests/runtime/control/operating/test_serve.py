"""`paddock serve` on a fresh home: the real client dispatches, the run ends and is torn down."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runtime import models
from tests.engine.sites import ROOT, Site, make_site
from tests.runtime.control.operating.operations import files_with
from tests.runtime.control.operating.served import RUN_S, dispatch, serving, state_of
from tests.runtime.control.prime.client import prime_program
from tests.waiting import wait_for

pytestmark = pytest.mark.control

EXAMPLE = ROOT / "examples" / "reverse-text.toml"
SEED_MODEL = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
CANARY = "canary-7d20c1"


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
    assert files_with(CANARY, site.folder) == []
    assert CANARY not in "".join(served.lines)


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


def test_a_volume_is_made_used_expanded_and_deleted(site: Site, program: Path) -> None:
    def status(name: str) -> str:
        found = json.loads(prime("volumes", "list", "-o", "json").out)
        return next((one["status"] for one in found if one["name"] == name), "gone")

    with serving(site) as served:
        prime = served.client("eve", program=program)
        made = prime("volumes", "create", "shelf", "--size", "1Ti")
        assert made.code == 0, made.out + made.err
        wait_for(lambda: status("shelf") == "RUNNING", timeout_s=RUN_S)
        run_id = dispatch(prime, example(site, "quick"), "--volume", "shelf")
        busy = prime("volumes", "delete", "shelf", "-y")
        wait_for(lambda: state_of(prime, run_id) == "COMPLETED", timeout_s=RUN_S)
        [folder] = (site.home / "volumes").iterdir()
        assert (folder / "runs" / run_id / "record.json").exists()
        assert prime("volumes", "expand", "shelf", "--size", "2Ti").code == 0
        wait_for(lambda: status("shelf") == "RUNNING", timeout_s=RUN_S)
        wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
        wait_for(lambda: prime("volumes", "delete", "shelf", "-y").code == 0, timeout_s=RUN_S)
        wait_for(lambda: status("shelf") == "gone", timeout_s=RUN_S)

    assert busy.code == 1
    assert f"is used by {run_id}" in busy.out
    assert not folder.exists()
    site.assert_nothing_left()
