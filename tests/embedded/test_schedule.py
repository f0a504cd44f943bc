"""Learning-rate schedules."""

import pytest

from runtime.rl.schedule import learning_rate
from runtime.rl.views import SchedulerView


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        ({"type": "constant"}, {1: 1.0, 100: 1.0}),
        (
            {"type": "linear", "warmup_steps": 10, "decay_steps": 20, "min_lr": 0.1},
            {1: 0.1, 5: 0.5, 10: 1.0, 50: 1.0, 90: 0.55, 100: 0.1},
        ),
        (
            {"type": "cosine", "warmup_steps": 20, "min_lr": 0.2},
            {10: 0.5, 20: 1.0, 60: 0.6, 100: 0.2},
        ),
    ],
)
def test_rates_of_a_run_of_100_steps(scheduler: dict[str, float], expected: dict[int, float]):
    view = SchedulerView.model_validate(scheduler)

    found = {step: learning_rate(step, 1.0, view, 100) for step in expected}

    assert found == pytest.approx(expected)


def test_an_endless_run_never_decays():
    view = SchedulerView(type="linear", warmup_steps=2)

    assert learning_rate(10_000, 1.0, view, None) == 1.0
