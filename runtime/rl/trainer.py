"""Entry point of the trainer: batches in, weights out, one optimizer step a batch.

`torchrun ... -m runtime.rl.trainer @ configs/trainer.json`. Waits for
`rollouts/step_N/rank_R.bin`, trains, publishes `broadcasts/step_N`. Ends after max_steps.
"""

import logging
import sys
import time
from functools import partial
from pathlib import Path

import torch

from runtime.artifacts import RunDirectory
from runtime.rl import checkpoint
from runtime.rl.component_config import read_config
from runtime.rl.console import SUCCESS, run_component, set_up_logging
from runtime.rl.distributed import Ranks, barrier, join, leave, ranks_from_environment
from runtime.rl.health import serve_health
from runtime.rl.learner import Learner, StepStats
from runtime.rl.metrics import append_row
from runtime.rl.model import load_model, model_folder, pick_device, use_threads
from runtime.rl.resume import find_resume
from runtime.rl.samples import read_batch
from runtime.rl.schedule import learning_rate
from runtime.rl.steps import rank_file
from runtime.rl.views import TrainerView
from runtime.rl.weights import publish

logger = logging.getLogger(__name__)

_BATCH_POLL_S = 0.02
_MIN_MICRO_BATCH_TOKENS = 8192
"""Padded tokens a micro-batch; a tiny model's whole batch goes through at once."""


class Trainer:
    """The loop over steps on one rank."""

    def __init__(self, config: TrainerView, ranks: Ranks) -> None:
        """Load the model, and the checkpoint where the run is resumed."""
        self._config = config
        self._ranks = ranks
        self._run = RunDirectory(config.output_dir)
        device = pick_device(ranks.local_rank)
        join(ranks, device, timeout_s=config.dist_timeout_seconds)
        logger.info("Loading %s on %s", config.model.name, device)
        model = load_model(config.model.name, device=device, dtype=torch.float32)
        self._learner = Learner(model, optim=config.optim, loss=config.loss, ranks=ranks)
        self._step = 0
        folder = find_resume(self._run, config.resume)
        if folder is not None:
            skip = config.ckpt is not None and config.ckpt.skip_optimizer
            self._step = checkpoint.load(folder, self._learner, skip_optimizer=skip)
            logger.info("Resumed from %s", folder)

    def run(self) -> None:
        """Train until max_steps, for ever without it."""
        self._publish()
        while self._config.max_steps is None or self._step < self._config.max_steps:
            self._step += 1
            self._train_step()
        leave(self._ranks)
        logger.log(SUCCESS, "RL trainer finished!")

    def _train_step(self) -> None:
        waiting_since = time.monotonic()
        samples = read_batch(
            self._wait_for(rank_file(self._run.rollouts, self._step, self._ranks.rank))
        )
        started = time.monotonic()
        config = self._config
        stats = self._learner.step(
            samples,
            lr=learning_rate(self._step, config.optim.lr, config.scheduler, config.max_steps),
            max_tokens=max(config.model.seq_len, _MIN_MICRO_BATCH_TOKENS),
        )
        self._publish()
        if self._ranks.is_first:
            self._report(stats, work_s=time.monotonic() - started, wait_s=started - waiting_since)
        # last: who sees the checkpoint may end the run, and none goes back before it for a row
        if checkpoint.is_due(config.ckpt, self._step, config.max_steps):
            self._save()
        barrier(self._ranks)

    def _publish(self) -> None:
        if self._ranks.is_first:
            publish(self._learner.model, self._run.broadcasts, self._step)

    def _save(self) -> None:
        if not self._ranks.is_first:
            return
        assert self._config.ckpt is not None
        folder = model_folder(self._config.model.name)
        checkpoint.save(self._run, self._learner, self._step, model_folder=folder)
        checkpoint.remove_old(self._run, self._config.ckpt)
        logger.info("Saved checkpoint step_%d", self._step)

    def _wait_for(self, path: Path) -> Path:
        while not path.exists():
            time.sleep(_BATCH_POLL_S)
        return path

    def _report(self, stats: StepStats, *, work_s: float, wait_s: float) -> None:
        throughput = stats.num_tokens / work_s
        values = {
            "loss/mean": stats.loss,
            "loss/entropy": stats.entropy,
            "loss/mismatch_kl": stats.mismatch_kl,
            "loss/masked": stats.masked,
            "loss/masked_high": stats.masked_high,
            "loss/masked_low": stats.masked_low,
            "optim/lr": stats.lr,
            "optim/grad_norm": stats.grad_norm,
            "perf/throughput": throughput,
            "trainer/time/step": work_s,
            "trainer/time/wait": wait_s,
        }
        monitor = self._config.monitors.file
        if monitor is not None:
            append_row(self._run.path / monitor.path, self._step, values)
        logger.log(
            SUCCESS,
            "Step %d | %.2fs | Loss %.4f | Entropy %.4f | Mismatch KL %.5f | Grad. Norm %.4f"
            " | LR %.2e | Throughput %.0f tokens/s",
            self._step,
            work_s,
            stats.loss,
            stats.entropy,
            stats.mismatch_kl,
            stats.grad_norm,
            stats.lr,
            throughput,
        )


def train(config: TrainerView) -> None:
    """Train one rank to the end."""
    use_threads()
    ranks = ranks_from_environment()
    if config.metrics_server is not None and ranks.local_rank == 0:
        serve_health(config.metrics_server)
    Trainer(config, ranks).run()


def main() -> int:
    """Read the configuration and train."""
    config = read_config(sys.argv[1:], TrainerView)
    set_up_logging(config.log)
    return run_component(partial(train, config))


if __name__ == "__main__":
    sys.exit(main())
