"""The limits of spending, as pure decisions."""

import pytest

from runtime.control.money import exact_usd, usd
from runtime.control.spending import Funds, Halt, Limit, Notice, judge, wish_at
from runtime.control.values import Wish
from runtime.states import RunState

PLENTY = 10**12


@pytest.mark.parametrize(
    ("cost", "found"),
    [(0, None), (79, None), (80, Notice), (99, Notice), (100, Halt), (101, Halt)],
)
def test_a_ceiling_is_said_at_80_percent_and_ends_the_run_when_met(
    cost: int, found: type | None
) -> None:
    funds = Funds(cost_microusd=cost, ceiling_microusd=100, balance_microusd=PLENTY)

    said = judge(funds)

    assert [type(one) for one in said] == ([found] if found else [])
    assert all(one.limit is Limit.CEILING for one in said)


@pytest.mark.parametrize(
    ("left", "found"),
    [(100, None), (21, None), (20, Notice), (1, Notice), (0, Halt), (-5, Halt)],
)
def test_a_wallet_is_measured_against_its_last_credit(left: int, found: type | None) -> None:
    said = judge(Funds(cost_microusd=5, balance_microusd=left, granted_microusd=100))

    assert [type(one) for one in said] == ([found] if found else [])
    assert all(one.limit is Limit.WALLET for one in said)


def test_a_percentage_is_exact_where_floats_are_not() -> None:
    ceiling = 5 * (2**60 + 1)

    below = Funds(
        cost_microusd=4 * (2**60 + 1) - 1, ceiling_microusd=ceiling, balance_microusd=PLENTY
    )

    assert judge(below) == ()


def test_both_limits_are_said_at_once() -> None:
    funds = Funds(
        cost_microusd=9_000_000,
        ceiling_microusd=10_000_000,
        balance_microusd=1_500_000,
        granted_microusd=10_000_000,
    )

    messages = [one.message for one in judge(funds) if isinstance(one, Notice)]

    assert messages == [
        "$9.00 of its ceiling of $10.00 are spent; it stops there",
        "the wallet has $1.50 left of $10.00; its runs stop at $0.00",
    ]


@pytest.mark.parametrize(
    ("state", "wish", "writes", "expected"),
    [
        (RunState.RUNNING, Wish.RUN, True, Wish.PAUSE),
        (RunState.RUNNING, Wish.RUN, False, Wish.STOP),
        (RunState.CREATING, Wish.RUN, True, Wish.STOP),
        (RunState.PULLING_IMAGE, Wish.RUN, True, Wish.STOP),
        (RunState.PAUSING, Wish.PAUSE, True, None),
        (RunState.RUNNING, Wish.STOP, True, None),
        (RunState.RUNNING, Wish.DELETE, True, None),
        (RunState.COMPLETED, Wish.RUN, True, None),
    ],
)
def test_only_a_running_run_is_waited_for(
    state: RunState, wish: Wish, writes: bool, expected: Wish | None
) -> None:
    assert wish_at(state=state, wish=wish, writes_checkpoints=writes) is expected


def test_dollars_are_cut_for_people_and_exact_for_accounts() -> None:
    amounts = [0, 9_999, 10_000, 1_299_505_000, -1_299_505_000, -9_999]

    assert [usd(one) for one in amounts] == [
        "$0.00",
        "$0.00",
        "$0.01",
        "$1,299.50",
        "-$1,299.50",
        "$0.00",
    ]
    assert exact_usd(-1_299_505_001) == "-$1,299.505001"
