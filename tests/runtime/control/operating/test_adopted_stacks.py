"""Runs that a person's `pulumi up` made: a server drives those whose stacks it can open."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from runtime.control.store import runs
from runtime.control.store.store import open_store
from runtime.control.values import StoredRun
from runtime.observe.local import run_processes
from tests.engine.sites import Site, make_site
from tests.runtime.control.operating.served import RUN_S, Served, read_run, serving
from tests.runtime.control.prime.client import Prime, Said, prime_program
from tests.secret_search import files_with_value
from tests.waiting import wait_for

pytestmark = pytest.mark.control

CANARY = "canary-51c0de"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster of four slots is up."""
    made = make_site(tmp_path_factory.mktemp("adopted"))
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.assert_nothing_left()


@pytest.fixture(scope="module")
def served(site: Site) -> Iterator[Served]:
    """Yield a server on the site's backend."""
    with serving(site) as served:
        yield served


@pytest.fixture(scope="module")
def prime(served: Served) -> Prime:
    """Return the client of the user who gets what is adopted."""
    return served.client("ada", program=prime_program())


def state(prime: Prime, run_id: str) -> str:
    """Return a run's state, empty while the server does not know it."""
    listed = prime("train", "list", "-o", "json").out
    return read_run(prime, run_id)["status"] if run_id in listed else ""


def until(prime: Prime, run_id: str, wanted: str) -> None:
    wait_for(lambda: state(prime, run_id) == wanted, timeout_s=RUN_S)


def stored(site: Site, run_id: str) -> StoredRun:
    store = open_store(f"sqlite:///{site.home / 'control.db'}")
    try:
        with store.read() as connection:
            run = runs.get_run(connection, run_id)
    finally:
        store.close()
    assert run is not None
    return run


def until_torn_down(site: Site, run_id: str) -> StoredRun:
    wait_for(lambda: stored(site, run_id).teardown == "done", timeout_s=RUN_S)
    wait_for(lambda: not (site.home / "projects" / run_id).exists(), timeout_s=RUN_S)
    return stored(site, run_id)


def as_somebody_else(site: Site) -> Site:
    """Return the site as a person has it whose stacks have another passphrase."""
    kept = {
        name: value
        for name, value in site.environment.items()
        if name != "PULUMI_CONFIG_PASSPHRASE_FILE"
    }
    environment = {**kept, "PULUMI_CONFIG_PASSPHRASE": "of-somebody-else"}
    return replace(site, project=replace(site.project, environment=environment))


def up_with_secret(site: Site, run_id: str) -> str:
    """Make a run as a person does, and return its settings file as it is then."""
    site.new_run(run_id)
    key = ("--secret", "--path", "paddock:env.CANARY_KEY")
    site.run("pulumi", "config", "set", *key, "--stack", run_id, stdin=CANARY)
    site.pulumi("up", "-s", run_id)
    return site.project.settings_file(run_id).read_text()


def test_a_run_by_hand_is_stopped_and_torn_down_and_its_stack_stays(
    site: Site, prime: Prime
) -> None:
    before = up_with_secret(site, "run-hand")
    until(prime, "run-hand", "RUNNING")

    said = prime("train", "stop", "run-hand", "--force")
    assert said.code == 0, said.out + said.err
    until(prime, "run-hand", "STOPPED")
    run = until_torn_down(site, "run-hand")

    assert (run.is_adopted, run.capture) == (True, "done")
    assert site.export("run-hand") == []
    assert site.project.settings_file("run-hand").read_text() == before
    assert run_processes(site.local_run("run-hand")) == frozenset()
    assert files_with_value(site.folder, CANARY) == []


def test_a_run_by_hand_is_restarted_with_its_secrets(site: Site, prime: Prime) -> None:
    up_with_secret(site, "run-again")
    until(prime, "run-again", "RUNNING")
    wait_for(lambda: stored(site, "run-again").config_text, timeout_s=RUN_S)

    said = prime("train", "restart", "run-again", "--force")
    assert said.code == 0, said.out + said.err
    wait_for(lambda: site.record("run-again").attempt == 2, timeout_s=RUN_S)
    wait_for(lambda: site.record("run-again").state == "RUNNING", timeout_s=RUN_S)
    first, second = [site.paddock("logs", "run-again", "--attempt", one).out for one in "12"]
    prime("train", "stop", "run-again", "--force")
    until_torn_down(site, "run-again")

    assert stored(site, "run-again").attempt == 2
    [digest] = [line for line in first.splitlines() if "CANARY_KEY" in line]
    assert digest in second
    assert files_with_value(site.folder, CANARY) == []


def test_a_stack_that_the_server_cannot_open_is_left_to_its_maker(site: Site, prime: Prime) -> None:
    other = as_somebody_else(site)
    other.up("run-other")
    until(prime, "run-other", "RUNNING")

    refused = [prime("train", what, "run-other", "--force") for what in ("stop", "restart")]
    deleted = prime("train", "delete", "run-other", "--force")

    assert all(one.code == 1 for one in (*refused, deleted))
    assert "incorrect passphrase" in flat(refused[0])
    assert "`paddock stop run-other`" in flat(refused[0])
    assert "`paddock resume run-other`" in flat(refused[1])
    assert "`paddock destroy run-other --remove`" in flat(deleted)
    assert state(prime, "run-other") == "RUNNING"
    other.paddock("stop", "run-other")
    until(prime, "run-other", "STOPPED")
    wait_for(lambda: stored(site, "run-other").capture == "done", timeout_s=RUN_S)
    assert other.export("run-other") != []
    other.pulumi("destroy", "-s", "run-other")
    until_torn_down(site, "run-other")


def flat(said: Said) -> str:
    """Return what a command printed, on one line."""
    return " ".join((said.out + said.err).split())
