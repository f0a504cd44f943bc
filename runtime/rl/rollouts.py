"""Rollouts: finished episodes as the orchestrator sees them, and the training samples in them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runtime.rl.advantages import group_advantages
from runtime.rl.samples import TrainingSample

if TYPE_CHECKING:
    from verifiers.v1 import WireTrace


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """One delivered episode; `trace` is None when the server returned none."""

    source: str
    group: str
    start_version: int
    end_version: int
    temperature: float
    trace: "WireTrace | None" = None
    error: str = ""
    advantage: float = 0.0

    @property
    def reward(self) -> float:
        """Return the episode's reward; 0 without a trace."""
        return float(self.trace.reward) if self.trace is not None else 0.0


@dataclass(kw_only=True, slots=True)
class Group:
    """The episodes of one task; done when each was delivered or cancelled."""

    id: str
    source: str
    size: int
    rollouts: list[Rollout] = field(default_factory=list)
    num_cancelled: int = 0

    @property
    def is_done(self) -> bool:
        """Tell whether nothing of the group is in flight any more."""
        return len(self.rollouts) + self.num_cancelled >= self.size

    @property
    def clean(self) -> list[Rollout]:
        """Return the rollouts that can be trained on."""
        return [rollout for rollout in self.rollouts if not rollout.error]


def problem_of(trace: "WireTrace", *, episode_ok: bool) -> str:
    """Return why a trace cannot be trained on, empty where it can.

    `ok` alone is not enough: an overlong prompt and a timed-out agent come back ok, without a turn.
    """
    if not (episode_ok and trace.ok):
        return "; ".join(str(error.message) for error in trace.errors) or "episode failed"
    if trace.is_timeout:
        return "the agent timed out"
    if not trace.agent.trainable:
        return "the agent is not trainable"
    if trace.num_turns == 0 or not any(any(branch.sampled_mask) for branch in trace.branches):
        return "no sampled token (overlong prompt?)"
    return ""


def with_advantages(rollouts: list[Rollout]) -> list[Rollout]:
    """Return a group's clean rollouts with their advantages."""
    advantages = group_advantages([rollout.reward for rollout in rollouts])
    return [
        replace(rollout, advantage=advantage)
        for rollout, advantage in zip(rollouts, advantages, strict=True)
    ]


def samples_of(rollout: Rollout, *, seq_len: int) -> Iterator[TrainingSample]:
    """Yield one sample a branch, cut at seq_len; a node that branches share is trained once."""
    if rollout.trace is None:
        return
    trained: set[int] = set()
    for branch in rollout.trace.branches:
        if not branch.trainable:
            continue
        mask = list(branch.sampled_mask)
        place = 0
        for node in branch.nodes:
            length = len(node.token_ids)
            if id(node) in trained:
                mask[place : place + length] = [False] * length
            trained.add(id(node))
            place += length
        sample = TrainingSample(
            token_ids=list(branch.token_ids)[:seq_len],
            mask=mask[:seq_len],
            logprobs=list(branch.logprobs)[:seq_len],
            advantage=rollout.advantage,
            temperature=rollout.temperature,
        )
        if sample.num_loss_tokens:
            yield sample
