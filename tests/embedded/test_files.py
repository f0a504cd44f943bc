"""Files that two processes share: step folders, metrics rows, resume points, notices."""

import json
import math
import multiprocessing
from pathlib import Path

import pytest

from runtime.artifacts import RunDirectory
from runtime.errors import EngineError
from runtime.launch.unsupported import engine_notices
from runtime.rl.metrics import append_row
from runtime.rl.resume import find_resume
from runtime.rl.steps import STABLE, list_steps, newest_broadcast, step_folder, whole_folder
from runtime.rl.views import ResumeView

HOSTED = Path(__file__).parents[1] / "data/embedded/hosted-reverse-text.json"


def _write_half(target: Path) -> None:
    with whole_folder(target) as folder:
        (folder / "half").touch()
        raise OSError("disk full")


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path):
    target = step_folder(tmp_path, 3)

    with pytest.raises(OSError, match="full"):
        _write_half(target)

    assert list(tmp_path.iterdir()) == []
    with whole_folder(target) as folder:
        (folder / "all").touch()
    assert list_steps(tmp_path) == [3]


def test_only_a_name_that_the_engine_gives_is_a_step(tmp_path: Path):
    for name in ("step_2", "step_\u00b2", "step_07", "step_1.old"):
        (tmp_path / name).mkdir()

    assert list_steps(tmp_path) == [2]


def test_only_a_stable_broadcast_counts(tmp_path: Path):
    for step in (1, 2):
        step_folder(tmp_path, step).mkdir()
    (step_folder(tmp_path, 1) / STABLE).touch()

    assert newest_broadcast(tmp_path) == 1


def _append_many(path: Path, name: str) -> None:
    for step in range(200):
        append_row(path, step, {name * 50: 1.0, "bad": math.nan})


def test_rows_of_two_writers_never_mix(tmp_path: Path):
    path = tmp_path / "metrics.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append_many, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)

    rows = [json.loads(line) for line in path.read_text().splitlines()]

    assert len(rows) == 400
    assert all(set(row) - {"step", "attempt", "time"} in ({"a" * 50}, {"b" * 50}) for row in rows)


def test_resume_finds_the_newest_whole_checkpoint(tmp_path: Path):
    run = RunDirectory(tmp_path)
    for name in ("step_2", "step_10", ".step_12.77.tmp"):
        (run.checkpoints / name).mkdir(parents=True)

    assert find_resume(run, ResumeView()) == run.checkpoints / "step_10"
    assert find_resume(run, ResumeView(step=2)) == run.checkpoints / "step_2"
    assert find_resume(run, ResumeView(dir=run.checkpoints / "step_2")) is not None
    assert find_resume(run, None) is None


def test_resume_from_a_missing_step_names_those_there_are(tmp_path: Path):
    run = RunDirectory(tmp_path)
    (run.checkpoints / "step_2").mkdir(parents=True)

    with pytest.raises(EngineError, match=r"step_5.*\[2\]"):
        find_resume(run, ResumeView(step=5))


def test_the_hosted_example_needs_no_notice():
    dumps = json.loads(HOSTED.read_text())

    assert (
        engine_notices(
            trainer=dumps["trainer.json"],
            orchestrator=dumps["orchestrator.json"],
            inference=dumps["inference.json"],
        )
        == []
    )


def test_each_key_without_effect_gives_one_notice():
    dumps = json.loads(HOSTED.read_text())
    dumps["trainer.json"]["model"] |= {"attn": "flash_attention_3", "ep": 8, "lora": {"rank": 8}}
    dumps["orchestrator.json"]["model"]["lora"] = {"rank": 8}
    dumps["inference.json"]["vllm"]["tensor_parallel_size"] = 8

    found = engine_notices(
        trainer=dumps["trainer.json"],
        orchestrator=dumps["orchestrator.json"],
        inference=dumps["inference.json"],
    )

    assert [notice.split(":")[0] for notice in found] == [
        "trainer.model.attn flash_attention_3",
        "trainer.model.ep 8",
        "trainer.model.lora",
        "inference.vllm.tensor_parallel_size 8",
    ]
