"""Entry point of the orchestrator: episodes in flight, batches to the trainer, new weights out.

`python -m runtime.rl.orchestrator @ configs/orchestrator.json`. Ends after max_steps with the line
`Orchestrator finished.`; fails, naming the component, when an env server or an engine is gone.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Coroutine
from functools import partial

from runtime.artifacts import RunDirectory
from runtime.errors import EngineError
from runtime.rl.batch_cut import Batch, cut_batch, fresh_rollouts
from runtime.rl.component_config import OrchestratorView, SourceView, read_config
from runtime.rl.console import SUCCESS, run_component, set_up_logging
from runtime.rl.dispatch import Dispatcher
from runtime.rl.evaluation import Evaluator
from runtime.rl.metrics import append_row
from runtime.rl.policy import Policy
from runtime.rl.progress import read_num_drawn, write_progress
from runtime.rl.reporting import source_lines, step_line, step_metrics
from runtime.rl.resume import find_resume
from runtime.rl.rollouts import Group, Rollout
from runtime.rl.samples import split_by_rank, write_batch
from runtime.rl.server_watch import wait_for_server, watch_server
from runtime.rl.sources import Source, open_source
from runtime.rl.steps import rank_file, step_of
from runtime.rl.traces import write_traces

logger = logging.getLogger(__name__)

MAX_EMPTY_BATCHES = 10
"""As prime-rl: so many batches in a row without a training sample end the run."""

_SERVER_TIMEOUT_S = 600.0  # prime-rl's limit for an env server to come up


class Orchestrator:
    """The loop over steps."""

    def __init__(self, config: OrchestratorView) -> None:
        """Load the tasks; servers and engines may still be starting."""
        self._config = config
        self._run = RunDirectory(config.output_dir)
        checkpoint = find_resume(self._run, config.resume)
        self._first_step = (step_of(checkpoint) or 0) if checkpoint is not None else 0
        drawn = read_num_drawn(checkpoint)
        self._train = [self._open(source, drawn) for source in config.train.source]
        self._eval = [
            self._open(source, {}) for source in (config.eval.source if config.eval else [])
        ]
        if not self._train:
            raise EngineError(
                "[[orchestrator.train.source]] is empty: there is nothing to train on"
            )
        client = config.model.client
        self._policy = Policy(client.admin_base_url or [client.base_url], self._run.broadcasts)

    async def run(self) -> None:
        """Run to the last step, or until something that the run needs is gone."""
        sources = [*self._train, *self._eval]
        timeout = self._config.model.client.wait_for_ready_timeout
        await asyncio.gather(
            self._policy.wait_for_engines(timeout),
            *(wait_for_server(source, _SERVER_TIMEOUT_S) for source in sources),
        )
        logger.info("Inference and %d env server(s) are ready", len(sources))
        await _first_of(
            self._steps(),
            self._policy.follow(),
            self._policy.watch(),
            *(watch_server(source) for source in sources),
        )
        for source in sources:
            await source.client.close()
        await self._policy.close()

    async def _steps(self) -> None:
        config = self._config
        await self._policy.wait_for(self._first_step)
        logger.info("Policy v%d is served", self._policy.version)
        self._dispatcher = Dispatcher(config, self._train, self._policy, step=self._first_step)
        self._evaluator = Evaluator(
            config, self._eval, self._policy, max_inflight=self._dispatcher.batch_size
        )
        if self._first_step == 0:
            await self._evaluate(0, first=True)
        step = self._first_step
        while config.max_steps is None or step < config.max_steps:
            step += 1
            await self._one_step(step)
            await self._evaluate(step)
        await self._dispatcher.drain()
        await self._policy.wait_for(max(self._first_step, step - 1))
        logger.log(SUCCESS, "Orchestrator finished.")

    async def _one_step(self, step: int) -> None:
        started = time.monotonic()
        finished_before = self._dispatcher.num_finished
        self._dispatcher.fill()
        for _ in range(MAX_EMPTY_BATCHES):
            batch = await self._collect(step)
            if batch.samples:
                break
            logger.warning("Step %d: no sample with an advantage in a whole batch, again", step)
            self._dispatcher.dropped(len(batch.clean))
        else:
            raise EngineError(
                f"step {step}: {MAX_EMPTY_BATCHES} batches in a row without a training sample; "
                "every group's rewards are equal: is the task too easy, or impossible?"
            )
        write_progress(self._run, step, self._train)
        ranks = split_by_rank(batch.samples, self._config.num_train_workers)
        for rank, samples in enumerate(ranks):
            write_batch(rank_file(self._run.rollouts, step, rank), samples)
        self._dispatcher.batch_sent(step, len(batch.clean))
        wall_s = time.monotonic() - started
        self._report(
            batch,
            step=step,
            wall_s=wall_s,
            num_finished=self._dispatcher.num_finished - finished_before,
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

    def _report(self, batch: Batch, *, step: int, wall_s: float, num_finished: int) -> None:
        values = step_metrics(batch, step=step, wall_s=wall_s, num_finished=num_finished)
        self._append_row(step, values)
        logger.log(SUCCESS, "%s", step_line(batch, step=step, wall_s=wall_s))
        for line in source_lines(batch.clean):
            logger.info("%s", line)
        if self._config.monitors.file is not None:
            for kind, items in (("all", batch.all_rollouts), ("effective", batch.effective)):
                write_traces(self._run.rollouts, step, "train", kind=kind, items=items)

    async def _evaluate(self, step: int, *, first: bool = False) -> None:
        due = self._evaluator.due(step, first=first)
        if not due:
            return
        await self._policy.wait_for(step)
        self._dispatcher.paused = True
        for source in due:
            found = await self._evaluator.evaluate(source, step)
            self._append_row(step, found.metrics())
            write_traces(self._run.rollouts, step, "eval", kind="all", items=found.rollouts)
        self._dispatcher.paused = False

    def _append_row(self, step: int, values: dict[str, float]) -> None:
        monitor = self._config.monitors.file
        if monitor is not None:
            append_row(self._run.path / monitor.path, step, values)

    def _open(self, source: SourceView, drawn: dict[str, int]) -> Source:
        return open_source(
            source, group_size=self._config.group_size, num_drawn=drawn.get(source.name, 0)
        )


async def _first_of(
    work: Coroutine[None, None, None], *watches: Coroutine[None, None, None]
) -> None:
    """Run the work to its end; a watch that raises ends it."""
    tasks = [asyncio.ensure_future(item) for item in (work, *watches)]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def orchestrate(config: OrchestratorView) -> None:
    """Run the orchestrator to its end."""

    async def run() -> None:
        await Orchestrator(config).run()

    asyncio.run(run())


def main() -> int:
    """Read the configuration and orchestrate."""
    config = read_config(sys.argv[1:], OrchestratorView)
    set_up_logging(config.log)
    return run_component(partial(orchestrate, config))


if __name__ == "__main__":
    sys.exit(main())
