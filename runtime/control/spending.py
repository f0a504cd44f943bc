"""What a run may still spend: notices at 80%, and the end at a ceiling or an empty wallet. Pure.

Called by `runtime.control.billing` after each debit. Integers only, so that no limit is missed or
met early by a rounding.
"""

from dataclasses import dataclass
from enum import StrEnum

from runtime.control.money import usd
from runtime.control.values import Wish
from runtime.states import RunState, is_terminal

NOTICE_PERCENT = 80
"""Share of a limit at which its notice is given."""


class Limit(StrEnum):
    """What bounds the spending of a run."""

    CEILING = "ceiling"
    WALLET = "wallet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Funds:
    """What a run has cost, and what there is to pay it; money in micro-dollars.

    `granted_microusd` is what the wallet held after its last credit.
    """

    cost_microusd: int
    ceiling_microusd: int | None = None
    balance_microusd: int
    granted_microusd: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """A limit is near; said once."""

    limit: Limit
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Halt:
    """A limit is reached: the run is to end."""

    limit: Limit
    reason: str


def judge(funds: Funds) -> tuple[Notice | Halt, ...]:
    """Return what is to be said of each limit of a run that is costing money."""
    return tuple(one for one in (_judge_ceiling(funds), _judge_wallet(funds)) if one is not None)


def wish_at(*, state: RunState, wish: Wish, writes_checkpoints: bool) -> Wish | None:
    """Return the wish that ends a run at a limit, None where it is ending already.

    A run that writes checkpoints is paused first, so that its last steps are kept; once it is
    PAUSED, it is stopped.
    """
    if is_terminal(state) or wish is not Wish.RUN:
        return None
    return Wish.PAUSE if state is RunState.RUNNING and writes_checkpoints else Wish.STOP


def _judge_ceiling(funds: Funds) -> Notice | Halt | None:
    ceiling, cost = funds.ceiling_microusd, funds.cost_microusd
    if ceiling is None:
        return None
    if cost >= ceiling:
        reason = f"stopped at its ceiling of {usd(ceiling)}: it has cost {usd(cost)}"
        return Halt(limit=Limit.CEILING, reason=reason)
    if 100 * cost >= NOTICE_PERCENT * ceiling:
        message = f"{usd(cost)} of its ceiling of {usd(ceiling)} are spent; it stops there"
        return Notice(limit=Limit.CEILING, message=message)
    return None


def _judge_wallet(funds: Funds) -> Notice | Halt | None:
    left, granted = funds.balance_microusd, funds.granted_microusd
    if left <= 0:
        reason = "stopped because the wallet is empty: top it up, and dispatch again"
        return Halt(limit=Limit.WALLET, reason=reason)
    if granted > 0 and 100 * left <= (100 - NOTICE_PERCENT) * granted:
        message = f"the wallet has {usd(left)} left of {usd(granted)}; its runs stop at $0.00"
        return Notice(limit=Limit.WALLET, message=message)
    return None
