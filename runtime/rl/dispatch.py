"""Dispatch: keeps episodes in flight against the env servers, and hands over finished groups.

How far it may run ahead is counted in episodes: batches up to `version + 1 + ahead` may be under
way, so the orchestrator is at most one batch ahead of the trainer. Episodes older than
max_off_policy_steps are cancelled. Episodes go to the engines in turn, so a run with several
engines needs no router process.
"""

import asyncio
import itertools
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from runtime.errors import EngineError
from runtime.rl.policy import Policy
from runtime.rl.rollouts import Group, Rollout, problem_of
from runtime.rl.sources import Source, TaskData, train_client
from runtime.rl.views import OrchestratorView

DEFAULT_BATCH_SIZE = 128  # prime-rl's, where the file sets neither batch_size nor token_batch_size
_MIN_FAILURES = 32


@dataclass(eq=False, kw_only=True, slots=True)
class _Flight:
    """One episode in flight."""

    group: Group
    start_version: int
    task: "asyncio.Task[None] | None" = None


class Dispatcher:
    """Starts episodes as the budget allows; `next_group` yields what came back."""

    def __init__(
        self, config: OrchestratorView, sources: list[Source], policy: Policy, *, step: int
    ) -> None:
        """Take the sources over; `step` is the last step whose batch was sent."""
        self.sent_step = step
        self.num_finished = 0
        self.paused = False
        self._config = config
        self._sources = sources
        self._policy = policy
        self._clients = [train_client(config, url) for url in policy.api_urls]
        self._next_client = itertools.cycle(range(len(self._clients)))
        self._random = random.Random(step)
        self._flights: set[_Flight] = set()
        self._finished: asyncio.Queue[Group] = asyncio.Queue()
        self._num_waiting = 0  # clean episodes of finished groups, not yet in a batch
        self._num_open = 0  # episodes of unfinished groups, delivered or not
        self._failures_in_a_row = 0
        self._failed = asyncio.get_running_loop().create_future()
        policy.on_update.append(self._drop_stale)
        policy.on_update.append(self.fill)

    @property
    def batch_size(self) -> int:
        """Return the samples of a step."""
        return self._config.batch_size or DEFAULT_BATCH_SIZE

    async def next_group(self) -> Group:
        """Return the next finished group; raises EngineError when every episode fails."""
        getting = asyncio.ensure_future(self._finished.get())
        done, _ = await asyncio.wait({getting, self._failed}, return_when=asyncio.FIRST_COMPLETED)
        if self._failed in done:
            getting.cancel()
            self._failed.result()
        return getting.result()

    def batch_sent(self, step: int, num_samples: int) -> None:
        """Note that a step's batch, cut from groups handed over, is with the trainer."""
        self.sent_step = step
        self._num_waiting -= num_samples
        self.fill()

    def dropped(self, num_samples: int) -> None:
        """Note that samples handed over will not be in any batch."""
        self._num_waiting -= num_samples
        self.fill()

    def fill(self) -> None:
        """Start groups while the budget allows."""
        if self.paused:
            return
        while len(self._flights) < self._limit() and self._wanted() > 0:
            self._start_group()

    async def drain(self) -> None:
        """Cancel what is in flight; servers are told."""
        self.paused = True
        tasks = [flight.task for flight in self._flights if flight.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _limit(self) -> int:
        bounds = self._config.concurrency
        wanted = bounds.initial_inflight or self.batch_size
        return wanted if bounds.max_inflight is None else min(wanted, bounds.max_inflight)

    def _wanted(self) -> int:
        """Return how many more episodes may be started now."""
        ahead = min(1, self._config.max_off_policy_steps)
        open_batches = self._policy.version + 1 + ahead - self.sent_step
        last = self._config.max_steps
        if last is not None:
            open_batches = min(open_batches, last - self.sent_step)
        if self._config.token_batch_size is not None:
            return self._limit() if open_batches > 0 else 0
        return open_batches * self.batch_size - self._num_waiting - self._num_open

    def _start_group(self) -> None:
        weights = [source.weight for source in self._sources]
        source = self._random.choices(self._sources, weights)[0]
        group = Group(id=uuid.uuid4().hex, source=source.name, size=source.group_size)
        task_data = source.draw()
        self._num_open += source.group_size
        for _ in range(source.group_size):
            flight = _Flight(group=group, start_version=self._policy.version)
            flight.task = asyncio.create_task(self._fly(flight, source, task_data))
            self._flights.add(flight)

    async def _fly(self, flight: _Flight, source: Source, task_data: TaskData) -> None:
        try:
            rollout = await self._run(flight, source, task_data)
        except asyncio.CancelledError:
            flight.group.num_cancelled += 1
        else:
            flight.group.rollouts.append(rollout)
            source.heard_at = asyncio.get_running_loop().time()
            self._count(rollout)
        self._flights.discard(flight)
        if flight.group.is_done:
            self._num_open -= flight.group.size
            self._num_waiting += len(flight.group.clean)
            self._finished.put_nowait(flight.group)
        self.fill()

    async def _run(self, flight: _Flight, source: Source, task_data: TaskData) -> Rollout:
        sampling = source.sampling(cache_salt=str(flight.start_version))
        make: Callable[..., Rollout] = lambda **fields: Rollout(  # noqa: E731
            source=source.name,
            group=flight.group.id,
            start_version=flight.start_version,
            end_version=self._policy.version,
            temperature=1.0 if sampling.temperature is None else sampling.temperature,
            **fields,
        )
        try:
            episode = await source.client.run(
                client=self._clients[next(self._next_client)],
                model=self._config.model.name,
                sampling=sampling,
                task_data=task_data,
            )
        except RuntimeError as error:  # the server's answer to a request that it cannot serve
            return make(error=str(error))
        if not episode.traces:
            return make(error="the episode has no trace")
        trace = episode.traces[0]
        return make(trace=trace, error=problem_of(trace, episode_ok=episode.ok))

    def _count(self, rollout: Rollout) -> None:
        self.num_finished += 1
        self._failures_in_a_row = self._failures_in_a_row + 1 if rollout.error else 0
        if (
            self._failures_in_a_row >= max(_MIN_FAILURES, self.batch_size)
            and not self._failed.done()
        ):
            self._failed.set_exception(
                EngineError(
                    f"the last {self._failures_in_a_row} episodes of {rollout.source} all failed: "
                    f"{rollout.error[:500]}"
                )
            )

    def _drop_stale(self) -> None:
        oldest = self._policy.version - self._config.max_off_policy_steps
        for flight in self._flights:
            if flight.start_version < oldest and flight.task is not None:
                flight.task.cancel()
