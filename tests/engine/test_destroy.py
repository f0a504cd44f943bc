"""`pulumi destroy` and `paddock destroy`: the teardown of a run works from state alone."""

import shutil

import pytest

from runtime.claims import read_claims
from runtime.ports import is_free
from runtime.states import RunState
from tests.engine.sites import Site, make_site

pytestmark = pytest.mark.engine


def test_destroying_a_live_run_stops_it_and_it_stays_down(site: Site) -> None:
    site.up("destroyed")
    site.until("destroyed", RunState.RUNNING)
    (claim,) = read_claims(site.state)

    site.pulumi("destroy", "-s", "destroyed")

    record = site.record("destroyed")
    assert record.state is RunState.STOPPED
    assert record.reason == "destroyed while live"
    assert site.leftovers() == []
    assert [port for port in claim.ports if not is_free(port)] == []
    again = site.pulumi("destroy", "-s", "destroyed")
    assert "Traceback" not in again.text
    up = site.pulumi("up", "-s", "destroyed", expect=None)
    assert up.code != 0
    assert "paddock resume destroyed" in up.text
    assert "pulumi config set paddock:attempt 2" in up.text
    assert "Traceback" not in up.text


def test_destroy_works_with_the_runs_files_and_the_programs_inputs_gone(site: Site) -> None:
    run = site.up("bereft")
    site.until("bereft", RunState.RUNNING)
    site.project.settings_file("bereft").unlink()
    (site.project.path / "bereft.toml").unlink()
    shutil.rmtree(run.run_path)

    site.pulumi("destroy", "-s", "bereft")

    assert site.leftovers() == []


def test_paddock_destroy_removes_the_stack_when_asked(site: Site) -> None:
    site.up("removed")

    site.paddock("destroy", "removed", "--remove")

    assert "removed" not in site.pulumi("stack", "ls").out
    assert not site.project.settings_file("removed").exists()
    assert site.record("removed").state is RunState.STOPPED


def test_destroying_what_is_nowhere_is_refused(site: Site) -> None:
    result = site.paddock("destroy", "nowhere", expect=4)

    assert "no stack and no run nowhere" in result.err


def test_a_cluster_is_not_destroyed_under_a_live_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    site = make_site(tmp_path_factory.mktemp("cluster"), slots=2)
    site.pulumi("up", "-s", "local")
    site.up("tenant")

    refused = site.pulumi("destroy", "-s", "local", expect=None)

    assert refused.code != 0
    assert "tenant still run on this cluster" in refused.text
    assert "Traceback" not in refused.text
    site.pulumi("destroy", "-s", "tenant")
    site.pulumi("destroy", "-s", "local")
    assert not site.state.exists()
    site.assert_nothing_left()
