"""The reward curve as numbers of an SVG picture. Pure; the template draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from pydantic import JsonValue

REWARD = "reward/mean"
WIDTH, HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 26
_MAX_POINTS = 240
_NUM_LINES = 4
_FACTORS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LARGEST = 1e15
"""What the picture is still exact for; an integer of a file may not fit into a float."""

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A place on an axis, in pixels, and what is written there."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A curve in pixels; `points` as an SVG polyline has them, `dot` is the last one."""

    points: str
    dot: Point
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    last: str
    best: str
    num_steps: int
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def reward_curve(rows: Sequence[Mapping[str, JsonValue]]) -> Curve | None:
    """Return the curve of the mean reward by step, None where no row has one."""
    values = _values(rows)
    if not values:
        return None
    steps, rewards = [step for step, _ in values], [reward for _, reward in values]
    levels = _levels(min(rewards), max(rewards))
    low, high = levels[0], levels[-1]
    first, last = steps[0], max(steps[-1], steps[0] + 1)

    def x_of(step: float) -> float:
        return round(_LEFT + (step - first) / (last - first) * (WIDTH - _LEFT - _RIGHT), 1)

    def y_of(reward: float) -> float:
        share = (reward - low) / (high - low)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    pixels = [(x_of(step), y_of(reward)) for step, reward in _thinned(values)]
    marks = sorted({steps[0], (steps[0] + steps[-1]) // 2, steps[-1]})
    return Curve(
        points=" ".join(f"{x},{y}" for x, y in pixels),
        dot=pixels[-1],
        x_ticks=tuple(Tick(at=x_of(step), text=str(step)) for step in marks),
        y_ticks=tuple(Tick(at=y_of(level), text=f"{level:.6g}") for level in levels),
        last=f"{rewards[-1]:.4g}",
        best=f"{max(rewards):.4g}",
        num_steps=len(values),
    )


def _values(rows: Sequence[Mapping[str, JsonValue]]) -> list[tuple[int, float]]:
    """Return step and reward of the rows that have both, in order; a step's last row counts."""
    found = {}
    for row in rows:
        step, reward = row.get("step"), row.get(REWARD)
        if _is_number(step) and _is_number(reward):
            assert isinstance(step, int | float)
            assert isinstance(reward, int | float)
            found[int(step)] = float(reward)
    return sorted(found.items())


def _is_number(value: JsonValue) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < _LARGEST  # not of NaN, nor of an infinity


def _levels(low: float, high: float) -> list[float]:
    """Return round numbers at even distances, the first one below all values, the last one above.

    Values that differ by less than a picture shows are taken as equal.
    """
    spread = high - low
    if spread < 1e-9 * max(1.0, abs(low), abs(high)):
        spread = max(1.0, abs(low), abs(high))
    rough = spread / _NUM_LINES
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * factor for factor in _FACTORS if unit * factor >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _thinned(values: list[tuple[int, float]]) -> list[tuple[float, float]]:
    """Return at most so many points, each the mean of its neighbours, the first and last as is."""
    if len(values) <= _MAX_POINTS:
        return [(float(step), reward) for step, reward in values]
    size = -(-len(values) // _MAX_POINTS)
    groups = [values[start : start + size] for start in range(0, len(values), size)]
    means = [
        (sum(step for step, _ in group) / len(group), sum(r for _, r in group) / len(group))
        for group in groups
    ]
    return [(float(values[0][0]), values[0][1]), *means, (float(values[-1][0]), values[-1][1])]
