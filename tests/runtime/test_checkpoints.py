"""Which names of folders are checkpoints."""

import pytest

from runtime.checkpoints import step_of, steps_of, unfinished_step_of


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


@pytest.mark.parametrize("name", [".step_12.77.tmp", ".step_12.from", ".step_12.for-run-1"])
def test_a_folder_that_is_being_written_has_a_step(name: str) -> None:
    assert unfinished_step_of(name) == 12
    assert step_of(name) is None


@pytest.mark.parametrize("name", ["step_1", "step_1.tmp", ".step_1", ".step_07.7.tmp", "..step_1."])
def test_no_other_folder_counts_as_being_written(name: str) -> None:
    assert unfinished_step_of(name) is None
