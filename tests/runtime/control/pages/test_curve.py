"""The reward curve: every value within the picture, whatever the rows hold."""

from datetime import timedelta
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from runtime.control.dashboard.curve import HEIGHT, WIDTH, Curve, reward_curve
from runtime.control.dashboard.wording import clock, log_lines, span
from tests.runtime.control.pages.test_pages import NOON


def rows(*rewards: JsonValue) -> list[dict[str, JsonValue]]:
    return [{"step": step, "reward/mean": value} for step, value in enumerate(rewards, start=1)]


def pixels(curve: Curve) -> list[tuple[float, float]]:
    pairs = [point.split(",") for point in curve.points.split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_a_curve_rises_with_the_reward() -> None:
    curve = reward_curve(rows(0.0, 0.5, 1.0))

    assert curve is not None
    xs, ys = zip(*pixels(curve), strict=True)
    assert list(xs) == sorted(xs)
    assert list(ys) == sorted(ys, reverse=True)
    assert (curve.last, curve.best, curve.num_steps) == ("1", "1", 3)
    assert [tick.text for tick in curve.x_ticks] == ["1", "2", "3"]
    assert [tick.text for tick in curve.y_ticks] == ["0", "0.25", "0.5", "0.75", "1"]


def test_the_lines_are_at_round_numbers_around_all_values() -> None:
    curve = reward_curve(rows(0.169, 0.843))
    flat = reward_curve(rows(0.3, 0.3))

    assert curve is not None
    assert flat is not None
    assert [tick.text for tick in curve.y_ticks] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert [tick.text for tick in flat.y_ticks] == ["0.25", "0.5"]


@pytest.mark.parametrize(
    "found", [[], [{"step": 1}], [{"reward/mean": 1.0}], rows(nan, inf, None, "1", True, 10**400)]
)
def test_rows_without_a_reward_make_no_curve(found: list[dict[str, JsonValue]]) -> None:
    assert reward_curve(found) is None


def test_one_step_is_a_dot() -> None:
    curve = reward_curve(rows(0.25))

    assert curve is not None
    assert [tick.text for tick in curve.x_ticks] == ["1"]
    assert pixels(curve) == [curve.dot]


def test_a_step_that_was_done_again_counts_once() -> None:
    curve = reward_curve([*rows(0.0, 0.1), {"step": 2, "reward/mean": 0.9}, {"step": 2, "loss": 1}])

    assert curve is not None
    assert (curve.num_steps, curve.last) == (2, "0.9")


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=900))
def test_no_point_leaves_the_picture(rewards: list[float]) -> None:
    curve = reward_curve(rows(*rewards))

    if curve is not None:
        found = pixels(curve)
        assert len(found) <= 242
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in found)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (90_061, "1 d 1 h"), (-5, "0 s")],
)
def test_a_span_is_in_its_two_largest_units(seconds: int, text: str) -> None:
    assert span(NOON, NOON + timedelta(seconds=seconds)) == text


def test_no_time_is_no_text() -> None:
    assert (clock(None), span(None, NOON), span(NOON, None)) == ("", "", "")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('{"level":"INFO","message":"hi"}', "INFO hi"),
        ('{"message":3}', '{"message":3}'),
        ("{broken", "{broken"),
        ("[" * 9000, "[" * 2000 + " ..."),
        ("{" * 2000, "{" * 2000),
        ("\x1b[1;32mgreen\x1b[0m\ttab\r", "green\ttab"),
    ],
)
def test_a_log_line_is_plain_text(line: str, shown: str) -> None:
    assert log_lines(line) == [shown]
