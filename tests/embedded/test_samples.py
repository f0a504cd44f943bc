"""From rewards to batches: advantages, files, ranks, padding, staleness, filters."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from runtime.rl.advantages import group_advantages
from runtime.rl.batch_cut import cut_batch, fresh_rollouts
from runtime.rl.batches import micro_batches
from runtime.rl.rollouts import Group, Rollout, samples_of
from runtime.rl.samples import TrainingSample, read_batch, split_by_rank, write_batch


@dataclass
class FakeNode:
    token_ids: list[int]


@dataclass
class FakeBranch:
    nodes: list[FakeNode]
    sampled_mask: list[bool]
    logprobs: list[float]
    trainable: bool = True

    @property
    def token_ids(self) -> list[int]:
        return [token for node in self.nodes for token in node.token_ids]


@dataclass
class FakeTrace:
    branches: list[FakeBranch]
    reward: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)


def trace(reward: float = 0.0) -> FakeTrace:
    nodes = [FakeNode([1, 2]), FakeNode([3, 4])]
    return FakeTrace([FakeBranch(nodes, [False, False, True, True], [0, 0, -1.0, -2.0])], reward)


def rollout(found: FakeTrace, *, version: int = 0, error: str = "") -> Rollout:
    return Rollout(
        source="s",
        group="g",
        start_version=version,
        end_version=version,
        temperature=1.0,
        trace=cast(Any, found),  # the fields that are read, without verifiers
        error=error,
    )


def sample(length: int, advantage: float = 1.0) -> TrainingSample:
    half = length // 2
    return TrainingSample(
        token_ids=list(range(1, length + 1)),
        mask=[False] * half + [True] * (length - half),
        logprobs=[0.0] * half + [-0.5] * (length - half),
        advantage=advantage,
        temperature=0.5,
    )


def test_advantages_are_rewards_less_the_groups_mean():
    assert group_advantages([1.0, 0.0, 0.5, 0.5]) == [0.5, -0.5, 0.0, 0.0]


def test_equal_rewards_have_no_advantage_at_all():
    assert group_advantages([0.1] * 7) == [0.0] * 7


def test_a_batch_file_holds_what_was_written(tmp_path: Path):
    samples = [sample(4), sample(7, -0.25)]

    write_batch(tmp_path / "step_1" / "rank_0.bin", samples)

    assert read_batch(tmp_path / "step_1" / "rank_0.bin") == samples
    assert [path.name for path in (tmp_path / "step_1").iterdir()] == ["rank_0.bin"]


def test_ranks_share_a_batch_without_loss():
    samples = [sample(length) for length in range(2, 13)]

    ranks = split_by_rank(samples, 3)

    assert sorted(len(item.token_ids) for rank in ranks for item in rank) == list(range(2, 13))
    assert [len(rank) for rank in ranks] == [4, 4, 3]


def test_micro_batches_keep_tokens_and_stay_under_the_limit():
    samples = [sample(length) for length in (3, 9, 4, 8, 5)]

    batches = list(micro_batches(samples, max_tokens=16, device=torch.device("cpu")))

    assert all(batch.ids_BT.numel() <= 16 for batch in batches)
    assert sum(len(batch.targets_N) for batch in batches) == sum(s.num_loss_tokens for s in samples)
    for batch in batches:
        assert int(batch.predicting_BT.sum()) == len(batch.targets_N)
        rows, places = batch.predicting_BT.nonzero(as_tuple=True)
        assert torch.equal(batch.ids_BT[rows, places + 1], batch.targets_N)


def test_a_node_that_two_branches_share_is_trained_once():
    shared = FakeNode([1, 2, 3])
    first = FakeBranch([shared, FakeNode([4])], [False, True, True, True], [0, -1, -1, -1])
    second = FakeBranch([shared, FakeNode([5])], [False, True, True, True], [0, -1, -1, -1])

    found = list(samples_of(rollout(FakeTrace([first, second])), seq_len=64))

    assert [item.mask for item in found] == [[False, True, True, True], [False, False, False, True]]


def test_samples_are_cut_at_seq_len_and_dropped_without_a_loss_token():
    assert [len(item.token_ids) for item in samples_of(rollout(trace()), seq_len=3)] == [3]
    assert list(samples_of(rollout(trace()), seq_len=2)) == []


def test_old_and_broken_rollouts_are_left_out_before_advantages():
    group = Group(id="g", source="s", size=4)
    group.rollouts = [
        rollout(trace(1.0), version=1),
        rollout(trace(0.0), version=5),
        rollout(trace(1.0), version=5),
        rollout(trace(9.0), version=5, error="failed"),
    ]

    fresh = fresh_rollouts(group, policy_version=6, max_off_policy_steps=2)

    assert [item.advantage for item in fresh] == [-0.5, 0.5]


@pytest.mark.parametrize(("filtered", "expected"), [(True, 0), (False, 2)])
def test_samples_without_advantage_are_dropped_after_batching(filtered: bool, expected: int):
    group = Group(id="g", source="s", size=2, rollouts=[rollout(trace(1.0)), rollout(trace(1.0))])
    fresh = fresh_rollouts(group, policy_version=0, max_off_policy_steps=8)

    batch = cut_batch([group], fresh, seq_len=64, filter_zero_advantages=filtered)

    assert len(batch.clean) == 2
    assert len(batch.samples) == expected
    assert batch.num_branches == 2
