"""The dispatcher's budget, staleness and failures, without env servers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from runtime.errors import EngineError
from runtime.rl import dispatch
from runtime.rl.dispatch import Dispatcher, _Flight
from runtime.rl.policy import Policy
from runtime.rl.rollouts import Rollout
from runtime.rl.sources import Source, TaskData
from runtime.rl.views import OrchestratorView


@dataclass
class FakePolicy:
    version: int = 0
    api_urls: tuple[str, ...] = ("http://a", "http://b")
    on_update: list[Callable[[], None]] = field(default_factory=list)

    def move_to(self, version: int) -> None:
        self.version = version
        for callback in self.on_update:
            callback()


@dataclass
class FakeSource:
    name: str = "s"
    weight: float = 1.0
    group_size: int = 2
    heard_at: float = 0.0

    def draw(self) -> dict[str, str]:
        return {}


class Bench(Dispatcher):
    """A dispatcher whose episodes end when the test says so."""

    def __init__(self, config: OrchestratorView, policy: FakePolicy) -> None:
        self.gates: list[asyncio.Future[str]] = []
        self.policy = policy
        super().__init__(config, [cast(Source, FakeSource())], cast(Policy, policy), step=0)

    async def _run(self, flight: _Flight, source: Source, task_data: TaskData) -> Rollout:
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        error = await gate
        return Rollout(
            source="s",
            group=flight.group.id,
            start_version=flight.start_version,
            end_version=self.policy.version,
            temperature=1.0,
            error=error,
        )

    @property
    def num_flying(self) -> int:
        return sum(not gate.done() for gate in self.gates)

    async def land(self, error: str = "") -> None:
        """End every episode in flight and let what follows happen."""
        await asyncio.sleep(0)
        for gate in [gate for gate in self.gates if not gate.done()]:
            gate.set_result(error)
        await settle()


async def _all_groups(bench: Bench) -> None:
    while True:
        await bench.next_group()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    monkeypatch.setattr(dispatch, "train_client", lambda config, url: url)

    def make(**fields: object) -> Bench:
        table = {
            "model": {"name": "m"},
            "output_dir": "runs",
            "batch_size": 8,
            "group_size": 2,
            **fields,
        }
        return Bench(OrchestratorView.model_validate(table), FakePolicy())

    return make


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(_as_coroutine(scenario), 10))


async def _as_coroutine(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()


@pytest.mark.parametrize(("max_off_policy_steps", "batches"), [(8, 2), (1, 2), (0, 1)])
def test_it_is_at_most_one_batch_ahead_of_the_trainer(
    bench: Callable[..., Bench], max_off_policy_steps: int, batches: int
):
    async def scenario() -> None:
        made = bench(max_off_policy_steps=max_off_policy_steps)
        made.fill()
        for _ in range(4):
            await made.land()
        assert len(made.gates) == 8 * batches
        made.batch_sent(1, 8)
        await settle()
        assert len(made.gates) == 8 * batches
        made.policy.move_to(1)
        await settle()
        assert len(made.gates) == 8 * (batches + 1)
        await made.drain()

    run(scenario)


def test_it_starts_no_episode_beyond_the_last_step(bench: Callable[..., Bench]):
    async def scenario() -> None:
        made = bench(max_steps=1)
        made.fill()
        await made.land()
        await made.land()
        assert len(made.gates) == 8

    run(scenario)


def test_inflight_stays_under_its_ceiling(bench: Callable[..., Bench]):
    async def scenario() -> None:
        made = bench(concurrency={"max_inflight": 4})
        made.fill()
        await settle()
        assert made.num_flying == 4
        await made.drain()

    run(scenario)


def test_failed_episodes_are_replaced_until_a_batch_is_full(bench: Callable[..., Bench]):
    async def scenario() -> None:
        made = bench(max_steps=1)
        made.fill()
        await made.land("failed")
        assert made.num_flying == 8
        await made.drain()

    run(scenario)


def test_stale_episodes_are_cancelled(bench: Callable[..., Bench]):
    async def scenario() -> None:
        made = bench(max_off_policy_steps=1)
        made.fill()
        await settle()
        made.paused = True
        made.policy.move_to(1)
        await settle()
        assert made.num_flying == 8
        made.policy.move_to(2)
        await settle()
        group = await made.next_group()
        assert (group.num_cancelled, group.rollouts) == (2, [])

    run(scenario)


def test_a_long_row_of_failures_ends_the_run_with_the_last_reason(bench: Callable[..., Bench]):
    async def scenario() -> None:
        made = bench()
        made.fill()
        for _ in range(5):
            await made.land("no route to the judge")
        with pytest.raises(EngineError, match="all failed: no route to the judge"):
            await _all_groups(made)
        await made.drain()

    run(scenario)
