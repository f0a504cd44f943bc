"""An engine that hangs in an `up` is ended at its limit, and the run fails and is torn down."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.control.failures import PROVISION_TIMEOUT
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.operations import OperatorLimits
from runtime.control.operator import ProcessOperator
from runtime.control.store import wallets
from runtime.control.store.store import Store
from runtime.control.values import EntryKind, wallet_id_of
from runtime.processes import marked_processes
from runtime.states import RunState, Teardown
from tests.engine.sites import ROOT
from tests.runtime.control.operating.operations import scripted_environment
from tests.runtime.control.reconciling.fakes import FakeCluster, FakePlaces, FakeRun
from tests.runtime.control.reconciling.site import Site, make_site

pytestmark = pytest.mark.control

ENGINE = """
echo "$*" >> "$NOTES/calls"
mkdir -p "$NOTES/stacks"
case "$1 $2" in
"stack init") touch "$NOTES/stacks/$3";;
"stack rm") rm "$NOTES/stacks/$6";;
"stack ls") cd "$NOTES/stacks" && ls | sed 's/.*/{"name":"&"}/' | paste -sd, | sed 's/.*/[&]/';;
"up --yes") [ "$5" = fine ] || exec sleep 600;;
esac"""
"""It keeps a list of stacks, and every `up` hangs but that of the run `fine`."""

LIMITS = OperatorLimits(operation_s=30.0, grace_s=2.0, drain_s=1.0)
SETTINGS = {"cluster": "east", "configText": "name = 'one'"}


@pytest.fixture
def hanging(
    sqlite_store: Store, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """Yield a server whose engine hangs, on a cluster of three GPUs."""
    monkeypatch.setattr("runtime.control.last_steps.LET_GO_S", 0.1)
    environ = scripted_environment(tmp_path, ENGINE)
    (tmp_path / "calls").touch()
    for name in ("PADDOCK_HOME", "PADDOCK_CACHE"):
        monkeypatch.setenv(name, environ[name])
    operator = ProcessOperator(sqlite_store, checkout=ROOT, environ=environ, limits=LIMITS)
    with LeaseKeeper(sqlite_store, "server-1") as keeper:
        made = make_site(keeper, FakePlaces({"east": cluster}), operator, store=sqlite_store)
        give_credit(made)
        yield made
        operator.close()
        made.close()


def give_credit(site: Site) -> None:
    """Put money into the wallet of the site's user, since the GPUs of a hanging `up` cost some."""
    wallet_id = wallet_id_of(site.user.user_id, None)
    credit = wallets.Movement(
        wallet_id=wallet_id, key="paid", kind=EntryKind.CREDIT, amount_microusd=10**9
    )
    with site.store.write() as tx:
        assert wallets.post(tx, credit)


def calls(folder: Path, run_id: str) -> list[str]:
    """Return what the engine was asked to do with a run's stack, without its lists."""
    lines = (folder / "calls").read_text().splitlines()
    return [line.split(" -")[0] for line in lines if f" {run_id} " in line]


def test_a_run_whose_up_hangs_fails_once_and_gives_back_its_room(
    hanging: Site, cluster: FakeCluster, tmp_path: Path
) -> None:
    hanging.dispatch("hung", num_gpus=3, settings=SETTINGS)
    hanging.pass_until(lambda: "up" in calls(tmp_path, "hung"))
    cluster.runs["hung"] = FakeRun(num_gpus=3)  # what it had started by then
    hanging.dispatch("fine", num_gpus=3, settings=SETTINGS)

    run = hanging.until_settled("hung")
    hanging.pass_until(lambda: "up" in calls(tmp_path, "fine"))

    assert (run.state, run.teardown) == (RunState.FAILED, Teardown.DONE)
    assert run.reason.startswith(f"{PROVISION_TIMEOUT}: up was not done")
    assert cluster.runs["hung"].num_left == 0
    assert calls(tmp_path, "hung") == ["stack init hung", "up", "destroy", "stack rm"]
    assert sorted(path.name for path in (tmp_path / "stacks").iterdir()) == ["fine"]
    notes = str(tmp_path).encode()
    assert not marked_processes(lambda environment: environment.get(b"NOTES") == notes)
