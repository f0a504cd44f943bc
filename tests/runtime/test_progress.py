"""A run's progress as its metrics file tells it."""

from pathlib import Path

from runtime.progress import MetricsTail, reward_curve


def test_a_row_is_told_once_and_whole(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    tail = MetricsTail(metrics)
    assert list(tail.new_rewards()) == []

    metrics.write_text('{"step": 1, "reward/mean": 0.25}\n{"step": 1, "loss/mean": 1}\n{"step": 2')
    first = list(tail.new_rewards())
    with metrics.open("a") as file:
        file.write(', "reward/mean": 0.5}\n')

    assert first == [(1, 0.25)]
    assert list(tail.new_rewards()) == [(2, 0.5)]


def test_a_torn_row_is_passed_over(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text(
        '{"step": 1, "rew{"step": 2, "reward/mean": 1.0}\n{"step": 3, "reward/mean": 0}\n'
    )

    assert list(MetricsTail(metrics).new_rewards()) == [(3, 0.0)]


def test_a_curve_has_a_column_a_step_up_to_its_width() -> None:
    lines = reward_curve({1: 0.0, 2: 0.5, 3: 1.0}, height=2)

    assert lines == [
        " 1.00 |  #",
        " 0.50 | ##",
        "      +---",
        "       step 1 to 3",
    ]
