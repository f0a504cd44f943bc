"""One optimizer step of the policy, on one rank or several: forward, loss, gradient, update.

Knows neither files nor the run; `runtime.rl.trainer` feeds it. Shapes: B samples, T tokens, N loss
tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from runtime.rl.batches import MicroBatch, micro_batches
from runtime.rl.distributed import Ranks, sum_gradients, sum_over_ranks
from runtime.rl.loss import policy_loss, token_entropy, token_logprobs
from runtime.rl.samples import TrainingSample
from runtime.rl.views import LossView, OptimizerView


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStats:
    """What a step reports; means are over the loss tokens of the global batch."""

    loss: float
    entropy: float
    mismatch_kl: float
    masked_high: float
    masked_low: float
    grad_norm: float
    lr: float
    num_tokens: int

    @property
    def masked(self) -> float:
        """Return the share of loss tokens that DPPO masks."""
        return self.masked_high + self.masked_low


class Learner:
    """The model with its optimizer."""

    def __init__(
        self, model: PreTrainedModel, *, optim: OptimizerView, loss: LossView, ranks: Ranks
    ) -> None:
        """Take the model over; every rank must hold the same weights."""
        self.model = model.train()
        self.optimizer = build_optimizer(model, optim)
        self._max_norm = optim.max_norm
        self._loss = loss
        self._ranks = ranks
        self._device = next(model.parameters()).device

    def step(self, samples: Sequence[TrainingSample], *, lr: float, max_tokens: int) -> StepStats:
        """Update the model on this rank's share of a batch."""
        counts = torch.tensor(
            [
                sum(sample.num_loss_tokens for sample in samples),
                sum(len(sample.token_ids) for sample in samples),
            ],
            dtype=torch.float64 if self._device.type == "cpu" else torch.float32,
            device=self._device,
        )
        sum_over_ranks(self._ranks, counts)
        num_loss_tokens = max(1.0, counts[0].item())
        self.optimizer.zero_grad(set_to_none=True)
        sums = torch.zeros(5, device=self._device)
        for batch in micro_batches(samples, max_tokens=max_tokens, device=self._device):
            sums += self._backward(batch, num_loss_tokens)
        sum_over_ranks(self._ranks, sums)
        sum_gradients(self._ranks, self.model.parameters())
        limit = self._max_norm if self._max_norm is not None else float("inf")
        grad_norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        loss, mismatch_kl, high, low, entropy = (sums / num_loss_tokens).tolist()
        return StepStats(
            loss=loss,
            entropy=entropy,
            mismatch_kl=mismatch_kl,
            masked_high=high,
            masked_low=low,
            grad_norm=grad_norm.item(),
            lr=lr,
            num_tokens=int(counts[1].item()),
        )

    def _backward(self, batch: MicroBatch, num_loss_tokens: float) -> torch.Tensor:
        logits_NV = predicting_logits(self.model, batch)
        logprobs_N = token_logprobs(logits_NV, batch.targets_N)
        total, stats = policy_loss(
            logprobs_N, batch.sampled_logprobs_N, batch.advantages_N, config=self._loss
        )
        (total / num_loss_tokens).backward()
        entropy = token_entropy(logits_NV.detach()).sum()
        parts = (stats.loss, stats.mismatch_kl, stats.masked_high, stats.masked_low, entropy)
        return torch.stack([part.float() for part in parts])


def predicting_logits(model: PreTrainedModel, batch: MicroBatch) -> torch.Tensor:
    """Return the logits that predict the loss tokens, at each sample's temperature, float32."""
    logits_BTV = model(
        input_ids=batch.ids_BT, attention_mask=batch.attention_BT, use_cache=False
    ).logits
    logits_NV = logits_BTV[batch.predicting_BT].float()
    return logits_NV / batch.temperatures_N[:, None]


def build_optimizer(model: PreTrainedModel, optim: OptimizerView) -> torch.optim.Optimizer:
    """Return the optimizer of the config; AdamW for types that `unsupported` tells of."""
    if optim.type == "sgd":
        return torch.optim.SGD(
            model.parameters(),
            lr=optim.lr,
            momentum=optim.momentum,
            nesterov=optim.nesterov,
            weight_decay=optim.weight_decay,
        )
    return torch.optim.AdamW(
        model.parameters(),
        lr=optim.lr,
        betas=(optim.betas1, optim.betas2),
        weight_decay=optim.weight_decay,
    )
