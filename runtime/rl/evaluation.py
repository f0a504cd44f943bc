"""Evaluations: a fixed list of examples an eval source, run when a version is due.

While one runs no training episode is started: an evaluation has priority, as in prime-rl.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from runtime.rl.console import SUCCESS
from runtime.rl.metrics import mean
from runtime.rl.policy import Policy
from runtime.rl.rollouts import Rollout
from runtime.rl.sources import Source, TaskData, eval_client, fixed_tasks
from runtime.rl.views import OrchestratorView

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """What one evaluation found."""

    source: str
    step: int
    rollouts: list[Rollout]
    group_size: int
    wall_s: float

    def metrics(self) -> dict[str, float]:
        """Return the row of the evaluation."""
        rewards = [rollout.reward for rollout in self.rollouts if not rollout.error]
        prefix = f"eval/{self.source}"
        return {
            f"{prefix}/reward/mean": mean(rewards),
            f"{prefix}/avg@{self.group_size}": mean(rewards),
            f"{prefix}/error/mean": mean([float(bool(item.error)) for item in self.rollouts]),
            f"{prefix}/time": self.wall_s,
        }


class Evaluator:
    """The eval sources of a run."""

    def __init__(
        self, config: OrchestratorView, sources: list[Source], policy: Policy, *, max_inflight: int
    ) -> None:
        """Take the sources over; at most `max_inflight` episodes run at a time."""
        self._config = config
        self._sources = sources
        self._policy = policy
        self._permits = asyncio.Semaphore(max_inflight)
        self._examples: dict[str, list[TaskData]] = {}

    def due(self, step: int, *, first: bool = False) -> list[Source]:
        """Return the sources to evaluate after a step; `first` is the start of the run."""
        return [
            source
            for source in self._sources
            if (not source.config.skip_first_step if first else step % source.config.interval == 0)
        ]

    async def evaluate(self, source: Source, step: int) -> Evaluation:
        """Run every example of a source with the policy that is served."""
        started = time.monotonic()
        version = self._policy.version
        if source.name not in self._examples:
            self._examples[source.name] = fixed_tasks(source, source.config.num_examples)
        examples = self._examples[source.name]
        jobs = [
            self._run(source, task, place, version)
            for place, task in enumerate(examples)
            for _ in range(source.group_size)
        ]
        found = Evaluation(
            source=source.name,
            step=step,
            rollouts=list(await asyncio.gather(*jobs)),
            group_size=source.group_size,
            wall_s=time.monotonic() - started,
        )
        reward = found.metrics()[f"eval/{source.name}/reward/mean"]
        line = "Evaluated %s (Step %d) | Policy v%d | %.2fs | Reward %.4f"
        logger.log(SUCCESS, line, source.name, step, version, found.wall_s, reward)
        return found

    async def _run(self, source: Source, task: TaskData, place: int, version: int) -> Rollout:
        urls = self._policy.api_urls
        async with self._permits:
            error, trace = "", None
            try:
                episode = await source.client.run(
                    client=eval_client(self._config, urls[place % len(urls)]),
                    model=self._config.model.name,
                    sampling=source.sampling(),
                    task_data=task,
                )
            except RuntimeError as failure:  # the server's answer to a request it cannot serve
                error = str(failure)
            else:
                trace = episode.traces[0] if episode.traces else None
                error = "" if trace is not None and episode.ok and trace.ok else "episode failed"
        return Rollout(
            source=source.name,
            group=f"example-{place}",
            start_version=version,
            end_version=self._policy.version,
            temperature=1.0,
            trace=trace,
            error=error,
        )
