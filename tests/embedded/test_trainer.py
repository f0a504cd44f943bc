"""The trainer against oracles: losses by hand, ranks against one process, resume against none."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from runtime.artifacts import RunDirectory
from runtime.rl import checkpoint
from runtime.rl.batches import pad
from runtime.rl.distributed import Ranks
from runtime.rl.learner import Learner, predicting_logits
from runtime.rl.model import load_model
from runtime.rl.samples import TrainingSample, split_by_rank, write_batch
from runtime.rl.steps import rank_file
from runtime.rl.trainer import Trainer
from runtime.rl.views import CheckpointView, LossView, OptimizerView, TrainerView
from tests.embedded.demo_config import PROJECT
from tests.embedded.driver import environment, free_ports

pytestmark = pytest.mark.embedded

CPU = torch.device("cpu")
LOSS = LossView()


def samples(step: int, count: int = 12) -> list[TrainingSample]:
    """Return a batch of random samples, some of them off-policy enough to be masked."""
    generator = torch.Generator().manual_seed(step)
    made = []
    for _ in range(count):
        length = int(torch.randint(4, 15, (1,), generator=generator))
        half = length // 2
        values = torch.rand(length, generator=generator)
        made.append(
            TrainingSample(
                token_ids=torch.randint(3, 200, (length,), generator=generator).tolist(),
                mask=[False] * half + [True] * (length - half),
                logprobs=[0.0] * half + (-6 * values[half:]).tolist(),
                advantage=float(torch.randn(1, generator=generator)),
                temperature=0.7,
            )
        )
    return made


def learner(folder: str) -> Learner:
    torch.set_num_threads(1)
    model = load_model(folder, device=CPU, dtype=torch.float32)
    return Learner(model, optim=OptimizerView(max_norm=None), loss=LOSS, ranks=Ranks())


def loss_by_hand(made: Learner, batch: list[TrainingSample]) -> float:
    """Return the batch's loss with one forward pass a sample and plain Python floats."""
    total, count = 0.0, 0
    for sample in batch:
        with torch.no_grad():
            logits = made.model(torch.tensor([sample.token_ids])).logits[0] / sample.temperature
        rows = logits.log_softmax(-1)
        for place in range(1, len(sample.token_ids)):
            if not sample.mask[place]:
                continue
            new, old = float(rows[place - 1, sample.token_ids[place]]), sample.logprobs[place]
            moved = math.exp(new) - math.exp(old)
            masked = moved > 0.2 if sample.advantage > 0 else moved < -0.2
            total -= 0.0 if masked else sample.advantage * math.exp(new - old)
            total += LOSS.kl_tau * (new - old) ** 2
            count += 1
    return total / count


def test_a_steps_loss_equals_the_loop_by_hand(raw_model: str):
    made = learner(raw_model)
    expected = loss_by_hand(made, samples(1))

    stats = made.step(samples(1), lr=0.0, max_tokens=40)

    assert stats.loss == pytest.approx(expected, rel=1e-4)
    assert stats.masked_high + stats.masked_low > 0


def test_a_steps_gradient_equals_a_finite_difference(raw_model: str):
    made = learner(raw_model)
    weight = made.model.model.layers[1].self_attn.q_proj.weight
    made.step(samples(2), lr=0.0, max_tokens=10_000)
    place = divmod(int(weight.grad.abs().argmax()), weight.shape[1])
    gradient = float(weight.grad[place])
    step = 1e-3
    values = []
    for sign in (1, -2):
        with torch.no_grad():
            weight[place] += sign * step
        values.append(loss_by_hand(made, samples(2)))

    assert gradient == pytest.approx((values[0] - values[1]) / (2 * step), rel=0.05)


def test_micro_batches_do_not_change_a_step(raw_model: str):
    one, many = learner(raw_model), learner(raw_model)

    first = one.step(samples(3), lr=1e-3, max_tokens=10_000)
    second = many.step(samples(3), lr=1e-3, max_tokens=16)

    assert first.loss == pytest.approx(second.loss, rel=1e-5)
    assert first.grad_norm == pytest.approx(second.grad_norm, rel=1e-4)


def test_logits_are_at_the_samples_temperature(raw_model: str):
    made = learner(raw_model)
    (sample,) = samples(4, count=1)

    found = predicting_logits(made.model, pad([sample], device=CPU))

    full = made.model(torch.tensor([sample.token_ids])).logits[0, :-1]
    wanted = full[torch.tensor(sample.mask[1:])] / 0.7
    assert torch.allclose(found, wanted, atol=1e-5)


def config(run: Path, model: str, **fields: object) -> TrainerView:
    table = {
        "model": {"name": model},
        "optim": {"lr": 1e-2},
        "output_dir": str(run),
        "max_steps": 4,
        "ckpt": {"interval": 2},
        **fields,
    }
    return TrainerView.model_validate(table)


def fill(run: Path, *, num_ranks: int = 1, steps: range = range(1, 5)) -> None:
    for step in steps:
        for rank, share in enumerate(split_by_rank(samples(step), num_ranks)):
            write_batch(rank_file(run / "rollouts", step, rank), share)


def final_weights(run: Path, step: int = 4) -> dict[str, torch.Tensor]:
    return load_file(run / f"checkpoints/step_{step}/trainer/model.safetensors")


def test_a_resumed_run_ends_exactly_as_one_without_a_stop(raw_model: str, tmp_path: Path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    for run in (whole, stopped):
        fill(run)
    Trainer(config(whole, raw_model), Ranks()).run()
    Trainer(config(stopped, raw_model, max_steps=2), Ranks()).run()
    (stopped / "checkpoints/.step_3.1.tmp/trainer").mkdir(parents=True)

    Trainer(config(stopped, raw_model, resume={}), Ranks()).run()

    expected = final_weights(whole)
    assert all(torch.equal(final_weights(stopped)[name], expected[name]) for name in expected)
    rows = [json.loads(line) for line in (stopped / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 3, 4]


def test_a_checkpoint_comes_once_its_step_is_told(
    raw_model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    told: dict[int, int] = {}

    def save(run: RunDirectory, made: Learner, step: int, *, model_folder: Path) -> None:
        told[step] = json.loads(run.metrics.read_text().splitlines()[-1])["step"]

    fill(tmp_path)
    monkeypatch.setattr(checkpoint, "save", save)

    Trainer(config(tmp_path, raw_model), Ranks()).run()

    assert told == {2: 2, 4: 4}


def test_two_ranks_train_as_one_process_does(raw_model: str, tmp_path: Path):
    alone, pair = tmp_path / "alone", tmp_path / "pair"
    fill(alone)
    fill(pair, num_ranks=2)
    Trainer(config(alone, raw_model), Ranks()).run()
    path = pair / "trainer.json"
    path.write_text(config(pair, raw_model).model_dump_json())

    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--nnodes=1"),
            *("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_ports(1)[0]}"),
            *("-m", "runtime.rl.trainer", "@", str(path)),
        ],
        env=environment(),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    expected = final_weights(alone)
    found = final_weights(pair)
    assert all(torch.allclose(found[name], expected[name], atol=1e-5) for name in expected)


def test_retention_keeps_the_last_and_every_interval(raw_model: str, tmp_path: Path):
    fill(tmp_path)
    keep = {"interval": 1, "keep_last": 1, "keep_interval": 2}

    Trainer(config(tmp_path, raw_model, ckpt=keep), Ranks()).run()

    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["step_2", "step_4"]
    assert (tmp_path / "checkpoints/step_4/trainer/tokenizer.json").is_file()


@pytest.mark.parametrize(("interval", "due"), [(None, [10]), (3, [3, 6, 9, 10]), (5, [5, 10])])
def test_checkpoints_are_due_at_intervals_and_at_the_end(interval: int | None, due: list[int]):
    view = CheckpointView(interval=interval)

    assert [step for step in range(1, 11) if checkpoint.is_due(view, step, 10)] == due
