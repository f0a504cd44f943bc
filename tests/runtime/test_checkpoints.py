"""Which names of folders are checkpoints."""

import pytest

from runtime.checkpoints import step_of, steps_of


@pytest.mark.parametrize(("name", "step"), [("step_0", 0), ("step_20", 20), ("step_100", 100)])
def test_a_step_is_told_by_the_name(name: str, step: int) -> None:
    assert step_of(name) == step


@pytest.mark.parametrize(
    "name", ["step_", "step_\u00b2", "step_\u0663", "step_-1", "step_07", ".step_1.tmp", "weights"]
)
def test_any_other_name_is_none(name: str) -> None:
    assert step_of(name) is None


def test_steps_are_in_the_order_of_their_numbers() -> None:
    assert steps_of(["step_100", "step_20", "last", "step_\u00b2"]) == [20, 100]
