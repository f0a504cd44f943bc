"""The policy-gradient loss, and what the trainer reports about it.

prime-rl's default loss: DPPO with the binary total-variation mask (arXiv 2602.04879) plus the
squared log-ratio penalty of Kimi K2.5 (arXiv 2602.02276). For a sampled token with trainer
probability p, sampling probability q and advantage A:

    ratio    = p / q
    masked   = p - q > dppo_mask_high   where A > 0
               p - q < -dppo_mask_low   where A <= 0
    loss     = -(not masked) * adv_tau * A * ratio + kl_tau * log(ratio) ** 2
    total    = sum over the loss tokens / number of loss tokens in the whole (global) batch

The mask stops pushing a token that already moved far in the direction in which A pushes it.

Shapes: N loss tokens, V vocabulary.
"""

from dataclasses import dataclass

import torch

from runtime.rl.views import LossView


@dataclass(frozen=True, kw_only=True, slots=True)
class LossStats:
    """Sums over loss tokens; add those of all micro-batches and ranks, then divide by tokens."""

    loss: torch.Tensor
    mismatch_kl: torch.Tensor
    masked_high: torch.Tensor
    masked_low: torch.Tensor


def policy_loss(
    logprobs_N: torch.Tensor,
    sampled_logprobs_N: torch.Tensor,
    advantages_N: torch.Tensor,
    *,
    config: LossView,
) -> tuple[torch.Tensor, LossStats]:
    """Return the summed loss (divide by the global token count) and the sums to report."""
    log_ratio_N = logprobs_N - sampled_logprobs_N
    ratio_N = log_ratio_N.exp()
    with torch.no_grad():
        moved_N = logprobs_N.exp() - sampled_logprobs_N.exp()
        pushed_up_N = advantages_N > 0
        masked_high_N = pushed_up_N & (moved_N > config.dppo_mask_high)
        masked_low_N = ~pushed_up_N & (moved_N < -config.dppo_mask_low)
        kept_N = (~(masked_high_N | masked_low_N)).to(ratio_N.dtype)
        mismatch_kl = (ratio_N - log_ratio_N - 1).sum()
    gain = (kept_N * config.adv_tau * advantages_N * ratio_N).sum()
    total = config.kl_tau * log_ratio_N.square().sum() - gain
    stats = LossStats(
        loss=total.detach(),
        mismatch_kl=mismatch_kl,
        masked_high=masked_high_N.sum(),
        masked_low=masked_low_N.sum(),
    )
    return total, stats


def token_logprobs(logits_NV: torch.Tensor, ids_N: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of each id under its logits."""
    return logits_NV.log_softmax(-1).gather(-1, ids_N.unsqueeze(-1)).squeeze(-1)


def token_entropy(logits_NV: torch.Tensor) -> torch.Tensor:
    """Return the entropy in nats of each row of logits, without a gradient."""
    with torch.no_grad():
        logprobs_NV = logits_NV.log_softmax(-1)
        return -(logprobs_NV.exp() * logprobs_NV).sum(-1)
