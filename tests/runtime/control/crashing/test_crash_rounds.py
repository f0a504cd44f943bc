"""The rounds of `make crash` on a server of the control plane."""

import os
import random
from pathlib import Path

import pytest

from tests.runtime.control.crashing.crash_rounds import AT_ONCE, NUM_WORKERS, play_all
from tests.runtime.control.crashing.plane import make_plane
from tests.runtime.control.crashing.rounds import plan_rounds
from tests.runtime.control.crashing.verdicts import line_problems


def test_a_seed_gives_the_same_rounds() -> None:
    rounds = plan_rounds(200, 7)

    assert rounds == plan_rounds(200, 7)
    assert rounds[:50] == plan_rounds(50, 7)


@pytest.mark.parametrize(
    ("numbers", "num_printed", "shown", "said"),
    [
        ([1, 2, 3], 3, 3, []),
        ([1, 3], 2, 2, ["line 2 of its log is its line 3"]),
        ([1, 2, 2], 3, 3, ["line 3 of its log is its line 2"]),
        ([1, 2], 3, 2, ["3 lines were printed, 2 are in its log"]),
        ([1, 2, 3], 3, 2, ["3 lines are in its log, 2 others are shown"]),
    ],
)
def test_a_line_that_is_lost_is_found(
    numbers: list[int], num_printed: int, shown: int, said: list[str]
) -> None:
    lines = [f"12:00:00 INFO line {number} of one" for number in numbers]

    found = list(line_problems("one", lines, shown=lines[:shown], num_printed=num_printed))

    assert found == [f"one: {problem}" for problem in said]


@pytest.mark.crash
def test_rounds_of_kills_on_a_server_leave_nothing(tmp_path: Path) -> None:
    num_rounds = int(os.environ.get("PADDOCK_CONTROL_ROUNDS", "5"))
    seed = int(os.environ.get("PADDOCK_CRASH_SEED") or random.SystemRandom().randrange(10_000))
    plane = make_plane(tmp_path / "site", num_slots=AT_ONCE, num_workers=NUM_WORKERS)

    try:
        problems = play_all(plane, num_rounds=num_rounds, seed=seed)
    finally:
        plane.site.kill_everything()

    assert problems == []
