"""The loss against a loop written by hand, and its gradient against finite differences."""

import math

import pytest
import torch

from runtime.rl.loss import policy_loss, token_entropy, token_logprobs
from runtime.rl.views import LossView

CONFIG = LossView(dppo_mask_low=0.2, dppo_mask_high=0.15, adv_tau=0.7, kl_tau=0.05)


def by_hand(logprobs: list[float], sampled: list[float], advantages: list[float]) -> float:
    """Return the summed loss as the formula in runtime.rl.loss reads."""
    total = 0.0
    for logprob, old, advantage in zip(logprobs, sampled, advantages, strict=True):
        moved = math.exp(logprob) - math.exp(old)
        masked = moved > CONFIG.dppo_mask_high if advantage > 0 else moved < -CONFIG.dppo_mask_low
        if not masked:
            total -= CONFIG.adv_tau * advantage * math.exp(logprob - old)
        total += CONFIG.kl_tau * (logprob - old) ** 2
    return total


def tokens(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (count,)
    logprobs = -3 * torch.rand(shape, generator=generator, dtype=torch.float64)
    sampled = logprobs + torch.randn(shape, generator=generator, dtype=torch.float64)
    advantages = torch.randn(shape, generator=generator, dtype=torch.float64)
    return logprobs, sampled.clamp(max=-1e-3), advantages


@pytest.mark.parametrize("seed", range(5))
def test_loss_equals_the_loop_by_hand(seed: int):
    logprobs, sampled, advantages = tokens(200, seed)

    loss, stats = policy_loss(logprobs, sampled, advantages, config=CONFIG)

    assert stats.masked_high > 0
    assert stats.masked_low > 0
    expected = by_hand(logprobs.tolist(), sampled.tolist(), advantages.tolist())
    assert loss.item() == pytest.approx(expected, abs=1e-9)


def test_gradient_equals_finite_differences():
    logprobs, sampled, advantages = tokens(40, 7)
    logprobs.requires_grad_()

    policy_loss(logprobs, sampled, advantages, config=CONFIG)[0].backward()

    assert logprobs.grad is not None
    step = 1e-6
    for place in range(len(logprobs)):
        values = logprobs.detach().clone()
        values[place] += step
        above = by_hand(values.tolist(), sampled.tolist(), advantages.tolist())
        values[place] -= 2 * step
        below = by_hand(values.tolist(), sampled.tolist(), advantages.tolist())
        assert logprobs.grad[place].item() == pytest.approx((above - below) / (2 * step), abs=1e-4)


@pytest.mark.parametrize(
    ("new", "old", "advantage", "high", "low"),
    [
        (0.9, 0.5, 1.0, 1, 0),
        (0.9, 0.5, -1.0, 0, 0),
        (0.1, 0.5, -1.0, 0, 1),
        (0.1, 0.5, 1.0, 0, 0),
        (0.55, 0.5, 1.0, 0, 0),
    ],
)
def test_a_token_is_masked_only_in_the_direction_of_its_advantage(
    new: float, old: float, advantage: float, high: int, low: int
):
    logprobs = torch.tensor([math.log(new)])

    _, stats = policy_loss(
        logprobs, torch.tensor([math.log(old)]), torch.tensor([advantage]), config=CONFIG
    )

    assert (int(stats.masked_high), int(stats.masked_low)) == (high, low)


def test_mismatch_kl_is_zero_on_policy():
    logprobs, _, advantages = tokens(20, 3)

    _, stats = policy_loss(logprobs, logprobs, advantages, config=CONFIG)

    assert stats.mismatch_kl.item() == 0


def test_logprobs_and_entropy_equal_their_definitions():
    logits = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ids = torch.arange(6)

    probs = logits.exp() / logits.exp().sum(-1, keepdim=True)

    assert torch.allclose(token_logprobs(logits, ids), probs[torch.arange(6), ids].log())
    assert torch.allclose(token_entropy(logits), -(probs * probs.log()).sum(-1))
