"""What a run wrote and no reader can use: it is left out, and spoils nothing beside it."""

import json
from pathlib import Path

from runtime.control.requests import StepRange
from tests.runtime.control.reading.clusters import reads_of
from tests.runtime.control.reading.run_files import stored_run, write_run


def test_rows_that_no_reader_can_use_spoil_nothing(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    deep = "[" * 200_000
    with directory.metrics.open("a") as file:
        file.write(f'{deep}\n{{"step": 8, "time": 1{"0" * 400}}}\n{{"step": 9, "time": NaN}}\n')
    (traces,) = (directory.path / "rollouts" / "step_3" / "train").glob("*/traces.jsonl")
    odd = [
        10**400,
        float("nan"),
        float("inf"),
        *(sign * (1.7e308 - n) for n in (0, 1e300) for sign in (1, -1)),
    ]
    rows = [json.dumps({"reward": value}) for value in (*odd, *range(30))]
    traces.write_text("\n".join([deep, *rows, ""]))
    folder = directory.status_folder(1)
    folder.mkdir(parents=True)
    (folder / "trainer-0.json").write_text(deep)
    reader, run = reads_of(tmp_path), stored_run(tmp_path)

    steps = [row["step"] for row in reader.metrics(run, StepRange())]
    bins = reader.distribution(run, kind=None, step=3).bins
    assert all(step in steps for step in (1, 2, 3, 8, 9))
    assert reader.progress(run).latest_step == 9
    assert sum(int(str(row["count"])) for row in bins) == 30
    assert reader.samples(run, step=3, offset=0, limit=3).total == len(rows) + 1
    assert "trainer-0" in {one.name for one in reader.components(run)}


def test_folders_that_are_no_steps_spoil_nothing(tmp_path: Path) -> None:
    directory = write_run(tmp_path)
    odd = ("step_007", "step_\u0663", f"step_{'9' * 30}")
    for name in odd:
        (directory.path / "rollouts" / name / "train" / "all").mkdir(parents=True)
        (directory.path / "checkpoints" / f".{name}.7.tmp").mkdir(parents=True)
    (directory.path / "checkpoints" / ".step_6.7.tmp").mkdir()
    reader, run = reads_of(tmp_path), stored_run(tmp_path)

    assert reader.progress(run).steps_with_samples == (1, 2, 3)
    assert [one.step for one in reader.checkpoints(run)] == [2, 4, 6]
