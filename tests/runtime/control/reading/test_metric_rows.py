"""The metrics of a run of several attempts: a step that was taken again counts once."""

from pathlib import Path

from runtime.control.requests import StepRange
from tests.runtime.control.reading.run_files import (
    NOON,
    run_directory,
    stored_run,
    write_metrics,
)
from tests.runtime.control.reading.test_reads import reads_of


def write_attempts(path: Path, attempts: dict[int, list[int]], name: str = "metrics.jsonl") -> None:
    taken = [(attempt, step) for attempt, steps in attempts.items() for step in steps]
    rows: list[dict[str, object]] = [
        {"step": step, "attempt": attempt, "time": NOON + number}
        for number, (attempt, step) in enumerate(taken)
    ]
    write_metrics(run_directory(path), name, rows)


def read_attempts(path: Path, steps: StepRange) -> list[tuple[object, object]]:
    rows = reads_of(path).metrics(stored_run(path, attempt=3), steps)
    return [(row["attempt"], row["step"]) for row in rows]


def test_steps_past_the_checkpoint_of_a_later_attempt_are_not_told_twice(tmp_path: Path) -> None:
    write_attempts(tmp_path, {1: [1, 2, 3, 4, 5], 2: [3, 4, 5, 6], 3: [6, 7]})

    told = read_attempts(tmp_path, StepRange())

    assert told == [(1, 1), (1, 2), (2, 3), (2, 4), (2, 5), (3, 6), (3, 7)]
    assert read_attempts(tmp_path, StepRange(first=4, last=6, limit=2)) == [(2, 5), (3, 6)]


def test_an_attempt_that_began_anew_leaves_nothing_of_those_before(tmp_path: Path) -> None:
    write_attempts(tmp_path, {1: [1, 2], 2: [3, 4], 3: [1]})

    assert read_attempts(tmp_path, StepRange()) == [(3, 1)]


def test_rows_of_two_files_are_judged_together(tmp_path: Path) -> None:
    write_attempts(tmp_path, {1: [1, 2, 3], 2: [3]})
    write_attempts(tmp_path, {1: [1, 2, 3]}, name="metrics-trainer.jsonl")

    assert (1, 3) not in read_attempts(tmp_path, StepRange())


def test_progress_is_that_of_the_attempt_that_lives(tmp_path: Path) -> None:
    write_attempts(tmp_path, {1: [1, 2, 3, 4, 5], 2: [3]})

    assert reads_of(tmp_path).progress(stored_run(tmp_path, attempt=2)).latest_step == 3


def test_of_rows_without_an_attempt_the_last_of_a_step_counts(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"step": step, "time": NOON + number, name: number}
        for number, (step, name) in enumerate([(1, "loss"), (2, "loss"), (2, "eval"), (2, "loss")])
    ]
    write_metrics(run_directory(tmp_path), "metrics.jsonl", rows)

    told = reads_of(tmp_path).metrics(stored_run(tmp_path), StepRange())

    assert told == [rows[0], rows[2], rows[3]]
