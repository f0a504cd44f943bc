"""Histograms over the rollouts of a step: reward, completion length, staleness."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import isfinite

from pydantic import JsonValue

from runtime.control.readings import Distribution
from runtime.control.run_reads.run_rollouts import Row, read_rows, steps_with_traces
from runtime.control.run_source import RunSource
from runtime.errors import Problem, RefusedError

NUM_BINS = 20

_LARGEST = 1e150
"""Numbers above count as none: sums and products of what is left are finite."""

REWARD = "reward"
_ALIASES = {
    "rewards": REWARD,
    "completion-length": "completion_length",
    "length": "completion_length",
    "off_policy": "staleness",
}


def read_distribution(source: RunSource, *, kind: str | None, step: int | None) -> Distribution:
    """Return a histogram of a step, of the newest one where none is named.

    Raises RefusedError for a kind that there is not.
    """
    name = _ALIASES.get(kind or REWARD, kind or REWARD)
    value_of = _VALUES.get(name)
    if value_of is None:
        problem = Problem(loc=("type",), message=f"{name!r} is none of {', '.join(_VALUES)}")
        raise RefusedError([problem])
    if step is None:
        step = max(steps_with_traces(source), default=None)
    if step is None:
        return Distribution(bins=())
    values = [value_of(row, step) for row in read_rows(source, step) if not row.get("error")]
    return Distribution(
        bins=histogram(value for value in values if value is not None and isfinite(value)),
        step=step,
    )


def histogram(values: Iterable[float]) -> Sequence[dict[str, JsonValue]]:
    """Return bins with what is in them; few different values have a bin each.

    `bin` is a bin's lower edge and `end` its upper one, which belongs to the last bin only.
    """
    counts = Counter(values)
    if not counts:
        return ()
    if len(counts) <= NUM_BINS:
        return [{"bin": value, "end": value, "count": counts[value]} for value in sorted(counts)]
    low, high = min(counts), max(counts)
    width = (high - low) / NUM_BINS
    bins = [0] * NUM_BINS
    for value, count in counts.items():
        bins[min(NUM_BINS - 1, int((value - low) / width))] += count
    return [
        {"bin": low + number * width, "end": low + (number + 1) * width, "count": count}
        for number, count in enumerate(bins)
    ]


def _reward(row: Row, _step: int) -> float | None:
    reward = _number(row.get("reward"))
    if reward is not None:
        return reward
    parts = row.get("rewards")
    if not isinstance(parts, dict):
        return None
    total = 0.0
    for part in parts.values():
        if isinstance(part, dict):
            total += (_number(part.get("score")) or 0.0) * (_number(part.get("weight")) or 0.0)
    return total


def _completion_length(row: Row, _step: int) -> float | None:
    return _number(row.get("num_output_tokens"))


def _staleness(row: Row, step: int) -> float | None:
    """Return how many steps older than the step's own policy the rollout's was."""
    policy = row.get("policy")
    start = _number(policy.get("start")) if isinstance(policy, dict) else None
    return None if start is None else float(step - 1 - start)


def _number(value: JsonValue) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST else None  # a NaN and an infinity are none either


_VALUES: dict[str, Callable[[Row, int], float | None]] = {
    REWARD: _reward,
    "completion_length": _completion_length,
    "staleness": _staleness,
}
