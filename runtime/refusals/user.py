"""Refusals of a user, whom only a control plane knows: queue, wallet, on-demand switch."""

from collections.abc import Iterator

from runtime.errors import Problem
from runtime.plan import RunPlan
from runtime.refusals.code import Code
from runtime.situation import UserLimits


def user_limits(plan: RunPlan, user: UserLimits) -> Iterator[Problem]:
    """The user may dispatch, pays, and has room in the queue."""
    if user.num_queued >= user.max_queued:
        yield Problem(
            message=f"{user.num_queued} runs are queued, at most {user.max_queued} a user may be",
            fix="wait for one to start, or stop one",
            code=Code.QUEUED_RUNS,
        )
    if not user.has_on_demand:
        yield Problem(
            message="on-demand runs are switched off for this user",
            fix="ask an administrator to switch them on",
            code=Code.ON_DEMAND,
        )
    price = plan.price_usd_per_hour
    # no price: the cluster has no such GPU, which refuses the run; nobody knows yet what it costs
    if user.balance_usd is not None and price and user.balance_usd <= 0:
        yield Problem(
            message=f"the wallet's balance is ${user.balance_usd:.2f}, the run costs "
            f"${price:.2f}/hour",
            fix="an administrator tops it up with `paddock wallet credit`",
            code=Code.WALLET,
        )
