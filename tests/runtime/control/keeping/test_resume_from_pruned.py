"""A run whose directory was pruned is started from all the same, from what was captured of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.sites import Site, make_site
from tests.runtime.control.operating.served import (
    RUN_S,
    dispatch,
    read_run,
    serving,
)
from tests.runtime.control.prime.client import Prime, prime_program
from tests.waiting import wait_for

pytestmark = pytest.mark.control

WEIGHTS = bytes(range(256)) * 40


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Yield a site whose cluster of four slots is up."""
    made = make_site(tmp_path)
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.kill_everything()


def until_torn_down(prime: Prime, run_id: str) -> None:
    """Wait until a run is captured and torn down."""

    def is_down() -> bool:
        run = read_run(prime, run_id)
        return (run["teardown"], run["capture"]) == ("done", "done")

    wait_for(is_down, timeout_s=RUN_S)


def test_a_pruned_checkpoint_comes_back_for_the_run_that_starts_with_it(site: Site) -> None:
    with serving(site) as served:
        prime = served.client("ada", program=prime_program())
        first = dispatch(prime, site.write_toml("told", "told"))
        wait_for(lambda: read_run(prime, first)["status"] == "RUNNING", timeout_s=RUN_S)
        run = site.local_run(first).directory
        weights = run.checkpoints / "step_40" / "trainer" / "model.safetensors"
        weights.parent.mkdir(parents=True)
        weights.write_bytes(WEIGHTS)
        (run.path / "finish").touch()
        until_torn_down(prime, first)
        site.paddock("runs", "prune", "--max-size", "1")
        assert not run.path.exists()

        toml = site.write_toml("long", "long")
        refused = prime("train", str(toml), "-y", "--resume-from", f"{first}:20")
        second = dispatch(prime, toml, "--resume-from", first)
        wait_for(lambda: read_run(prime, second)["status"] == "RUNNING", timeout_s=RUN_S)
        assert weights.read_bytes() == WEIGHTS
        kept = site.paddock("runs", "prune", "--max-size", "1").out
        assert prime("train", "stop", second, "--force").code == 0
        until_torn_down(prime, second)
        site.paddock("runs", "prune", "--max-size", "1")

    assert refused.code == 1
    assert "no checkpoint of step 20; it has those of 40" in refused.out + refused.err
    assert f"{second} starts with its checkpoint" in kept
    assert not run.path.exists()
    site.assert_nothing_left()
