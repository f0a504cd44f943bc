"""Whole runs of pods as processes of this machine: the programs of the ConfigMap, end to end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import homes, models
from runtime.rl.tiny_model import ensure_tiny_model
from tests.runtime.launch_pods.local_pods import ROOT, LocalPods, hub_cache, make_pods

pytestmark = pytest.mark.embedded

PREPARE_S = 240
RUN_S = 600  # six interpreters that import torch share two cores


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[LocalPods]]:
    hub_cache(tmp_path / "hf", models.TINY_MODEL, ensure_tiny_model(homes.cache_path()))
    found: list[LocalPods] = []
    yield found
    for one in found:
        one.close()


def demo() -> str:
    text = (ROOT / "examples/demo.toml").read_text()
    return text.replace("max_steps = 100", "max_steps = 2").replace(
        "batch_size = 64", "batch_size = 16"
    )


def multi_node() -> str:
    text = (ROOT / "examples/multi-node.toml").read_text()
    for old, new in (
        ('name = "Qwen/Qwen3-30B-A3B-Thinking-2507"', f'name = "{models.TINY_MODEL}"'),
        ("seq_len = 32768", "seq_len = 256\nmax_steps = 2"),
        ("batch_size = 512", "batch_size = 16\ngroup_size = 8\nrenderer.name = 'prime-qwen3'"),
        ("max_completion_tokens = 32768", "max_completion_tokens = 8"),
        ('id = "i3_math"', 'id = "arithmetic"'),
    ):
        assert old in text, old
        text = text.replace(old, new)
    return text


def test_the_demo_completes_in_pods(
    tmp_path: Path, made: list[LocalPods], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_pods(tmp_path, demo(), monkeypatch)
    made.append(run)

    prepared = run.all("prepare", timeout_s=PREPARE_S)
    assert set(prepared.values()) == {0}, run.tails()
    ended = run.all("run", timeout_s=RUN_S)

    assert set(ended.values()) == {0}, run.tails()
    assert run.verdict("orchestrator-0-0")["end_mark"] is True
    assert {run.verdict(key)["outcome"] for key in ("orchestrator-0-0", "trainer-0-0")} == {
        "completed"
    }
    assert run.verdict("inference-0-0")["reason"] == "the orchestrator finished"
    said = run.output("prepare-orchestrator-0-0")
    assert "name: read as prime-rl's run.name" in said
    assert "orchestrator.train.group_size: read as prime-rl's orchestrator.group_size" in said
    assert [row["step"] for row in run.rows("metrics.jsonl") if "reward/mean" in row] == [1, 2]
    assert [row["step"] for row in run.rows("metrics-trainer.jsonl")] == [1, 2]
    assert "weights go by files, not by nccl" in run.output("run-orchestrator-0-0")


def test_a_run_in_pods_starts_with_the_checkpoint_of_another(
    tmp_path: Path, made: list[LocalPods], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before/hf").symlink_to(tmp_path / "hf")
    text = demo().replace("max_steps = 2", "max_steps = 1")
    before = make_pods(tmp_path / "before", text, monkeypatch)
    made.append(before)
    assert set(before.all("prepare", timeout_s=PREPARE_S).values()) == {0}, before.tails()
    assert set(before.all("run", timeout_s=RUN_S).values()) == {0}, before.tails()

    run = make_pods(tmp_path, demo(), monkeypatch, other=before.run_dir)
    made.append(run)
    prepared = run.all("prepare", timeout_s=PREPARE_S)
    assert set(prepared.values()) == {0}, run.tails()
    ended = run.all("run", timeout_s=RUN_S)

    assert set(ended.values()) == {0}, run.tails()
    assert "starting with step 1 of run-before" in run.output("prepare-orchestrator-0-0")
    assert [row["step"] for row in run.rows("metrics-trainer.jsonl")] == [2]
    assert [row["step"] for row in run.rows("metrics.jsonl") if "reward/mean" in row] == [2]


def test_several_nodes_complete_with_one_process_each(
    tmp_path: Path, made: list[LocalPods], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_pods(tmp_path, multi_node(), monkeypatch, processes=1)
    made.append(run)

    prepared = run.all("prepare", timeout_s=PREPARE_S)
    assert set(prepared.values()) == {0}, run.tails()
    ended = run.all("run", timeout_s=RUN_S)

    assert set(ended.values()) == {0}, run.tails()
    assert len(ended) == 7
    assert run.verdict("trainer-0-1")["outcome"] == "completed"
    assert run.verdict("orchestrator-0-0")["end_mark"] is True
    assert [row["step"] for row in run.rows("metrics-trainer.jsonl")] == [1, 2]
