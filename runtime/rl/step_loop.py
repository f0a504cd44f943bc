"""The orchestrator's loop over steps: collect a batch, send it, report it, evaluate when due."""

import logging
import time

from runtime.artifacts import RunDirectory
from runtime.errors import EngineError
from runtime.rl.batch_cut import Batch, cut_batch, fresh_rollouts
from runtime.rl.console import SUCCESS
from runtime.rl.dispatch import Dispatcher
from runtime.rl.evaluation import Evaluator
from runtime.rl.metrics import append_row
from runtime.rl.policy import Policy
from runtime.rl.progress import write_progress
from runtime.rl.reporting import source_lines, step_line, step_metrics
from runtime.rl.rollouts import Group, Rollout
from runtime.rl.samples import split_by_rank, write_batch
from runtime.rl.sources import Source
from runtime.rl.steps import rank_file
from runtime.rl.traces import write_traces
from runtime.rl.views import OrchestratorView

logger = logging.getLogger(__name__)

MAX_EMPTY_BATCHES = 10
"""As prime-rl: so many batches in a row without a training sample end the run."""


class StepLoop:
    """Steps from the one after `first_step` to max_steps."""

    def __init__(
        self,
        config: OrchestratorView,
        policy: Policy,
        *,
        train: list[Source],
        evaluation: list[Source],
        first_step: int,
    ) -> None:
        """Take over the connected sources; needs a running event loop."""
        self._config = config
        self._policy = policy
        self._run = RunDirectory(config.output_dir)
        self._train = train
        self._step = first_step
        self._dispatcher = Dispatcher(config, train, policy, step=first_step)
        self._evaluator = Evaluator(
            config, evaluation, policy, max_inflight=self._dispatcher.batch_size
        )

    async def run(self) -> None:
        """Run to the last step and until its weights are on their way."""
        await self._policy.wait_for(self._step)
        logger.info("Policy v%d is served", self._policy.version)
        if self._step == 0:
            await self._evaluate(0, first=True)
        while self._config.max_steps is None or self._step < self._config.max_steps:
            self._step += 1
            await self._one_step(self._step)
            await self._evaluate(self._step)
        await self._policy.wait_for(self._step - 1)

    async def close(self) -> None:
        """Cancel what is in flight."""
        await self._dispatcher.drain()

    async def _one_step(self, step: int) -> None:
        started = time.monotonic()
        num_before = self._dispatcher.num_finished
        self._dispatcher.fill()
        batch = await self._collect_samples(step)
        write_progress(self._run, step, self._train)
        ranks = split_by_rank(batch.samples, self._config.num_train_workers)
        for rank, samples in enumerate(ranks):
            write_batch(rank_file(self._run.rollouts, step, rank), samples)
        self._dispatcher.batch_sent(step, len(batch.clean))
        num_finished = self._dispatcher.num_finished - num_before
        self._report(batch, wall_s=time.monotonic() - started, num_finished=num_finished)

    async def _collect_samples(self, step: int) -> Batch:
        """Collect batches until one has samples to train on."""
        for _ in range(MAX_EMPTY_BATCHES):
            batch = await self._collect(step)
            if batch.samples:
                return batch
            logger.warning("Step %d: no sample with an advantage in a whole batch, again", step)
            self._dispatcher.dropped(len(batch.clean))
        raise EngineError(
            f"step {step}: {MAX_EMPTY_BATCHES} batches in a row without a training sample; "
            "every group's rewards are equal: is the task too easy, or impossible?"
        )

    async def _collect(self, step: int) -> Batch:
        """Take finished groups until they make a batch."""
        groups: list[Group] = []
        fresh: list[Rollout] = []
        while not self._is_full(fresh):
            group = await self._dispatcher.next_group()
            kept = fresh_rollouts(
                group,
                policy_version=step - 1,
                max_off_policy_steps=self._config.max_off_policy_steps,
            )
            groups.append(group)
            fresh += kept
            self._dispatcher.dropped(len(group.clean) - len(kept))
        return cut_batch(
            groups,
            fresh,
            seq_len=self._config.seq_len,
            filter_zero_advantages=self._config.train.filter_zero_advantages,
        )

    def _is_full(self, rollouts: list[Rollout]) -> bool:
        limit = self._config.token_batch_size
        if limit is None:
            return len(rollouts) >= self._dispatcher.batch_size
        traces = [rollout.trace for rollout in rollouts if rollout.trace is not None]
        return sum(trace.num_total_tokens for trace in traces) >= limit

    def _report(self, batch: Batch, *, wall_s: float, num_finished: int) -> None:
        step = self._step
        self._append_row(step_metrics(batch, step=step, wall_s=wall_s, num_finished=num_finished))
        logger.log(SUCCESS, "%s", step_line(batch, step=step, wall_s=wall_s))
        for line in source_lines(batch.clean):
            logger.info("%s", line)
        self._write_traces("train", batch.all_rollouts, batch.effective)

    async def _evaluate(self, step: int, *, first: bool = False) -> None:
        due = self._evaluator.due(step, first=first)
        if not due:
            return
        await self._policy.wait_for(step)
        self._dispatcher.paused = True
        delivered: list[Rollout] = []
        for source in due:
            found = await self._evaluator.evaluate(source, step)
            self._append_row(found.metrics())
            delivered += found.rollouts
        self._write_traces("eval", delivered, [item for item in delivered if not item.error])
        self._dispatcher.paused = False

    def _append_row(self, values: dict[str, float]) -> None:
        monitor = self._config.monitors.file
        if monitor is not None:
            append_row(self._run.path / monitor.path, self._step, values)

    def _write_traces(self, split: str, delivered: list[Rollout], effective: list[Rollout]) -> None:
        if self._config.monitors.file is not None:
            folder = self._run.rollouts
            write_traces(folder, self._step, split, delivered=delivered, effective=effective)
