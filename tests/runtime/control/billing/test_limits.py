"""A run at its limit, through the reconciler: a last checkpoint, STOPPED, the limit as reason."""

from datetime import UTC, datetime, timedelta

from runtime.control.billing import Biller
from runtime.control.lease_keeper import shard_of
from runtime.control.store import wallets
from runtime.control.values import Wish
from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import FakeCluster
from tests.runtime.control.reconciling.site import Site

S = RunState


def start(site: Site, cluster: FakeCluster, *, ceiling: int, plan_json: str) -> None:
    """Bring a run to RUNNING that has held its GPU for a day, in a rich user's name."""
    owner = f"user/{site.user.user_id}"
    movement = wallets.Movement(
        wallet_id=owner, key="paid", kind=wallets.EntryKind.CREDIT, amount_microusd=10**12
    )
    with site.store.write() as tx:
        wallets.post(tx, movement)
    site.dispatch("run-1", max_spend_microusd=ceiling, plan_json=plan_json)
    site.pass_until(lambda: "run-1" in cluster.runs)
    cluster.runs["run-1"].started = datetime.now(UTC) - timedelta(days=1)
    cluster.become("run-1", S.RUNNING)
    site.until_state("run-1", S.RUNNING)


def money_of(site: Site) -> tuple[int, int]:
    """Return (charged for run-1, left in the user's wallet), in micro-dollars."""
    with site.store.read() as tx:
        wallet = wallets.get_wallet(tx, f"user/{site.user.user_id}")
        return wallets.charged_microusd(tx, "run-1"), wallet.balance_microusd


def bill(site: Site) -> None:
    """Bill now, which the reconciler does every 20 s."""
    fence = site.keeper.lease(shard_of("run-1"))
    assert fence is not None
    Biller(store=site.store).bill_run("run-1", fence)


def test_a_run_at_its_ceiling_is_stopped_after_a_last_checkpoint(
    site: Site, cluster: FakeCluster
) -> None:
    start(site, cluster, ceiling=20_000_000, plan_json="{}")
    credited = sum(money_of(site))
    bill(site)
    site.until_state("run-1", S.PAUSING)
    cluster.runs["run-1"].checkpoint = 7
    site.until_state("run-1", S.PAUSED)
    bill(site)
    run = site.until_settled("run-1")

    assert (run.state, run.wish) == (S.STOPPED, Wish.STOP)
    assert run.reason == "stopped at its ceiling of $20.00: it has cost $48.00"
    charged, balance = money_of(site)
    assert 48_000_000 <= charged < 49_000_000
    assert balance == credited - charged
    assert all(one.ended_at for one in site.intervals("run-1"))


def test_a_person_who_stops_a_run_at_its_limit_is_the_reason(
    site: Site, cluster: FakeCluster
) -> None:
    start(site, cluster, ceiling=20_000_000, plan_json="{}")
    bill(site)
    site.intents.stop(site.user, "run-1")
    run = site.until_settled("run-1")

    assert (run.state, run.reason) == (S.STOPPED, "stopped on request")


def test_a_run_below_its_ceiling_goes_on(site: Site, cluster: FakeCluster) -> None:
    start(site, cluster, ceiling=60_000_000, plan_json="{}")
    bill(site)
    cluster.become("run-1", S.COMPLETED)
    run = site.until_settled("run-1")

    assert (run.state, run.wish) == (S.COMPLETED, Wish.RUN)
    assert len(site.events("run-1", "notice-ceiling")) == 1
