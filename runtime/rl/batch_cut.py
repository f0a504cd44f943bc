"""Cutting a batch: from groups to training samples, with staleness and zero-advantage filters.

Pure. prime-rl's order: groups get their advantages, a batch is cut, then samples that teach
nothing are dropped from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.rl.rollouts import Group, Rollout, samples_of, with_advantages
from runtime.rl.samples import TrainingSample


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """One step's batch and all that it was cut from."""

    all_rollouts: list[Rollout]
    clean: list[Rollout]
    effective: list[Rollout]
    samples: list[TrainingSample]
    num_branches: int
    num_cancelled: int


def fresh_rollouts(
    group: Group, *, policy_version: int, max_off_policy_steps: int
) -> list[Rollout]:
    """Return a group's clean rollouts that are not too old, with their advantages."""
    oldest = policy_version - max_off_policy_steps
    fresh = [rollout for rollout in group.clean if rollout.start_version >= oldest]
    return with_advantages(fresh)


def cut_batch(
    groups: Sequence[Group],
    fresh: Sequence[Rollout],
    *,
    seq_len: int,
    filter_zero_advantages: bool,
) -> Batch:
    """Return the batch of the rollouts that are fresh; `groups` are those they come from."""
    samples: list[TrainingSample] = []
    effective: list[Rollout] = []
    num_branches = 0
    for rollout in fresh:
        own = list(samples_of(rollout, seq_len=seq_len))
        num_branches += len(own)
        if own and not (filter_zero_advantages and rollout.advantage == 0.0):
            samples += own
            effective.append(rollout)
    num_stale = sum(len(group.clean) for group in groups) - len(fresh)
    judged = {id(rollout.trace): rollout for rollout in fresh}
    delivered = [rollout for group in groups for rollout in group.rollouts]
    return Batch(
        all_rollouts=[judged.get(id(rollout.trace), rollout) for rollout in delivered],
        clean=list(fresh),
        effective=effective,
        samples=samples,
        num_branches=num_branches,
        num_cancelled=num_stale + sum(group.num_cancelled for group in groups),
    )
