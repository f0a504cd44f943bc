"""`pulumi up` by hand: accepted, repeated, changed, and on a machine that is full."""

import json
import re
from collections.abc import Iterator

import pytest

from runtime.claims import read_claims
from runtime.local_state import LocalRun
from runtime.states import RunState
from tests.engine.sites import COMMAND_LIMIT_S, COMPONENTS, Site

pytestmark = pytest.mark.engine

FIRST, SECOND, THIRD = "up-first", "up-second", "up-third"


@pytest.fixture(scope="module")
def full(shared_site: Site) -> Iterator[Site]:
    """Yield the site with two live runs that hold all four slots, brought up side by side."""
    for run_id in (FIRST, SECOND):
        shared_site.new_run(run_id)
    command = ("pulumi", "up", "--yes", "--skip-preview", "-s")
    engines = [shared_site.start(*command, run_id) for run_id in (FIRST, SECOND)]
    for engine in engines:
        out, err = engine.communicate(timeout=COMMAND_LIMIT_S)
        assert engine.returncode == 0, out + err
    yield shared_site
    for run_id in (FIRST, SECOND):
        shared_site.pulumi("destroy", "-s", run_id)
    shared_site.assert_nothing_left()


@pytest.fixture
def first(full: Site) -> Iterator[LocalRun]:
    """Yield the first run; a test that touches any of its processes fails."""
    run = full.local_run(FIRST)
    full.until(FIRST, RunState.RUNNING)
    before = (full.pids(run), full.supervisor(run))
    yield run
    assert (full.pids(run), full.supervisor(run)) == before
    assert full.record(FIRST).state is RunState.RUNNING


def is_readable(text: str) -> bool:
    return "Traceback" not in text and 'File "' not in text


def test_an_accepted_run_has_all_four_kinds_of_component(full: Site, first: LocalRun) -> None:
    assert set(full.pids(first)) == set(COMPONENTS)


def test_the_state_holds_a_run_spec_that_all_else_depends_on(full: Site) -> None:
    resources = full.export(FIRST)

    spec = next(one["urn"] for one in resources if one["type"].endswith(":RunSpec"))
    others = [one for one in resources if one["urn"] != spec and one.get("custom")]
    assert len(others) == 1 + len(COMPONENTS)
    assert all(spec in one["dependencies"] for one in others)


def test_the_run_finds_its_cluster_by_a_stack_reference(full: Site) -> None:
    outputs = full.pulumi("stack", "output", "-s", FIRST, "--json").out
    state = json.loads(full.pulumi("stack", "export", "-s", FIRST).out)["deployment"]

    types = [one["type"] for one in state["resources"]]
    assert "pulumi:pulumi:StackReference" in types
    assert '"cluster": "local"' in outputs
    assert f'"runPath": "{full.local_run(FIRST).run_path}"' in outputs


def test_up_again_changes_nothing_on_a_full_machine(full: Site, first: LocalRun) -> None:
    result = full.pulumi("up", "-s", first.run_id)

    assert "8 unchanged" in result.text


def test_two_runs_hold_disjoint_slots_and_ports(full: Site) -> None:
    one, other = read_claims(full.state)

    assert {*one.slots, *other.slots} == {0, 1, 2, 3}
    assert set(one.ports).isdisjoint(other.ports)


@pytest.mark.parametrize("command", ["preview", "up"])
def test_a_changed_config_on_a_live_run_is_refused_by_name(
    full: Site, first: LocalRun, command: str
) -> None:
    full.write_toml(FIRST, "long", lr="7.25e-4")
    try:
        result = full.pulumi(command, "-s", FIRST, expect=None)
    finally:
        full.write_toml(FIRST, "long")

    assert result.code != 0
    assert "its config was changed: trainer.optim.lr. Nothing was touched" in result.text
    assert "7.25" not in result.text
    assert "0.000725" not in result.text
    assert is_readable(result.text)


def test_a_changed_setting_on_a_live_run_is_refused_by_name(full: Site, first: LocalRun) -> None:
    settings = full.project.settings_file(FIRST)
    before = settings.read_text()
    full.pulumi("config", "set", "paddock:imageTag", "v0.7.1", "-s", FIRST)
    secret = ("config", "set", "--secret", "--path", "paddock:env.LATE_KEY", "-s", FIRST)
    full.run("pulumi", *secret, stdin="hunter2")
    try:
        result = full.pulumi("up", "-s", FIRST, expect=None)
    finally:
        settings.write_text(before)

    assert result.code != 0
    assert "its config was changed: paddock:imageTag, paddock:env. Nothing" in result.text
    assert "hunter2" not in result.text
    assert is_readable(result.text)


def test_a_run_that_does_not_fit_is_a_notice_at_preview_and_refused_at_up(
    full: Site, first: LocalRun
) -> None:
    full.new_run(THIRD, "quick")

    preview = full.pulumi("preview", "-s", THIRD)
    up = full.pulumi("up", "-s", THIRD, expect=None)

    said = "needs 2 slots, 0 of 4 are free (up-first holds 2, up-second holds 2)"
    assert re.search(r"notice: capacity: .*2.*0", preview.text)
    assert up.code != 0
    assert said in up.text
    assert is_readable(up.text)
    assert not full.local_run(THIRD).directory.record.exists()
    assert [one for one in full.export(THIRD) if one.get("custom")] == []
    assert {claim.run_id for claim in read_claims(full.state)} == {FIRST, SECOND}


def test_a_run_fits_once_another_has_ended(full: Site) -> None:
    full.paddock("stop", SECOND)

    full.pulumi("up", "-s", THIRD)

    full.until(THIRD, RunState.COMPLETED)
    full.pulumi("destroy", "-s", THIRD)
    assert full.record(THIRD).state is RunState.COMPLETED
