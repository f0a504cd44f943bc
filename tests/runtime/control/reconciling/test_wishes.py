"""What is wished of a run a second time: nothing is written, and another wish still is."""

import pytest

from runtime.control.store import runs
from runtime.control.values import Wish
from runtime.states import RunState
from tests.runtime.control.reconciling.site import Site


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
