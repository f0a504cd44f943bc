"""What is wished of a run: twice writes nothing, another wish still is, a pause waits rightly."""

import pytest

from runtime.control.store import runs
from runtime.control.values import Wish
from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import FakeCluster
from tests.runtime.control.reconciling.site import Site

S = RunState


def wishes(site: Site) -> list[str]:
    """Return what was wished of the run, by whom."""
    return [event.message for event in site.events("run-1", kind="wish")]


def test_a_repeated_stop_or_delete_writes_nothing(site: Site) -> None:
    site.dispatch("run-1")

    site.intents.stop(site.user, "run-1")
    version = site.run("run-1").version
    again = [site.intents.stop(site.user, "run-1").version for _ in range(3)]
    site.intents.delete(site.user, "run-1")
    deleted = site.run("run-1").version
    site.intents.delete(site.user, "run-1")
    site.intents.stop(site.user, "run-1")

    assert again == [version] * 3
    assert site.run("run-1").version == deleted
    assert site.run("run-1").wish is Wish.DELETE
    name = site.user.name
    assert wishes(site) == [f"stop: {name}", f"delete: {name}"]


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.PAUSING, RunState.PAUSED])
def test_a_stop_after_a_pause_is_written(site: Site, state: RunState) -> None:
    site.dispatch("run-1")
    with site.store.write() as tx:
        changes = {"state": state, "wish": Wish.PAUSE}
        assert runs.compare_and_set(tx, "run-1", site.run("run-1").version, **changes)

    site.intents.stop(site.user, "run-1")

    assert site.run("run-1").wish is Wish.STOP


def test_an_old_checkpoint_is_no_new_one_where_none_could_be_seen_as_the_pause_began(
    site: Site, cluster: FakeCluster
) -> None:
    site.dispatch("run-1")
    site.pass_until(lambda: "run-1" in cluster.runs)
    cluster.become("run-1", S.RUNNING)
    site.until_state("run-1", S.RUNNING)
    cluster.runs["run-1"].checkpoint, cluster.has_files = 10, False
    site.intents.pause(site.user, "run-1")
    site.until_state("run-1", S.PAUSING)
    site.reconciler.make_pass()
    begun = site.run("run-1").reason
    cluster.has_files = True
    site.pass_until(lambda: site.run("run-1").reason != begun)
    site.reconciler.make_pass()
    known = site.run("run-1")
    cluster.runs["run-1"].checkpoint = 20
    site.until_state("run-1", S.PAUSED)

    assert begun == "waits for a checkpoint"
    assert (known.state, known.reason) == (S.PAUSING, "waits for a checkpoint after step 10")
    marks = [event.message for event in site.events("run-1", "pause")]
    assert marks == ["unknown", "10"]
