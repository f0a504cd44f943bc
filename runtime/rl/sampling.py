"""Sampling parameters of a request, and drawing a token a row from logits.

Shapes: B rows, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    """One request's sampling; `top_k` below 1 and `top_p` of 1 switch their filter off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    min_tokens: int = 0
    max_tokens: int | None = None
    stop_token_ids: frozenset[int] = frozenset()

    @property
    def filters(self) -> bool:
        """Tell whether anything but the temperature shapes the distribution."""
        return self.top_p < 1.0 or self.top_k > 0 or self.min_p > 0.0


def processed_logprobs(logits_BV: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """Return the log-probabilities that tokens are drawn from, float32.

    They are those under temperature and filters (vLLM's processed_logprobs), so a trainer that
    divides its logits by the temperature recomputes them. Temperature 0 is greedy, reported at
    temperature 1.
    """
    scales = [item.temperature if item.temperature > 0 else 1.0 for item in params]
    temperatures_B = torch.tensor(scales, device=logits_BV.device)
    logprobs_BV = (logits_BV.float() / temperatures_B[:, None]).log_softmax(-1)
    for row, item in enumerate(params):
        if item.filters:
            logprobs_BV[row] = _filter(logprobs_BV[row], item)
    return logprobs_BV


def draw(
    logprobs_BV: torch.Tensor, params: Sequence[SamplingParams], generator: torch.Generator
) -> torch.Tensor:
    """Return one token id a row."""
    drawn_B = torch.multinomial(logprobs_BV.exp(), 1, generator=generator).squeeze(-1)
    greedy = [item.temperature <= 0 for item in params]
    if not any(greedy):
        return drawn_B
    greedy_B = torch.tensor(greedy, device=logprobs_BV.device)
    return torch.where(greedy_B, logprobs_BV.argmax(-1), drawn_B)


def _filter(logprobs_V: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Keep top_k, then top_p, then min_p tokens of a row, and normalise what is left."""
    sorted_V, order_V = logprobs_V.sort(descending=True)
    kept_V = torch.ones_like(sorted_V, dtype=torch.bool)
    if params.top_k > 0:
        kept_V[params.top_k :] = False
    if params.top_p < 1.0:
        before_V = sorted_V.exp().cumsum(-1) - sorted_V.exp()
        kept_V &= before_V < params.top_p
    if params.min_p > 0.0:
        kept_V &= sorted_V.exp() >= params.min_p * sorted_V[0].exp()
    kept_V[0] = True
    mask_V = torch.zeros_like(kept_V).scatter(0, order_V, kept_V)
    return logprobs_V.masked_fill(~mask_V, -torch.inf).log_softmax(-1)
