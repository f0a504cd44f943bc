"""From training samples to padded tensors: micro-batches of bounded size.

Samples are padded on the right, so positions count from 0 and causal attention never sees padding.
Shapes: B samples, T tokens, N loss tokens of the micro-batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from runtime.rl.samples import TrainingSample


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """Samples that go through the model together.

    `predicting_BT` is true where the logits predict a loss token; the *_N tensors follow its
    row-major order.
    """

    ids_BT: torch.Tensor
    attention_BT: torch.Tensor
    predicting_BT: torch.Tensor
    targets_N: torch.Tensor
    sampled_logprobs_N: torch.Tensor
    advantages_N: torch.Tensor
    temperatures_N: torch.Tensor


def micro_batches(
    samples: Sequence[TrainingSample], *, max_tokens: int, device: torch.device
) -> Iterator[MicroBatch]:
    """Yield the samples in micro-batches of at most `max_tokens` padded tokens, or one sample."""
    ordered = sorted(samples, key=lambda sample: len(sample.token_ids))
    chunk: list[TrainingSample] = []
    for sample in ordered:
        if chunk and len(sample.token_ids) * (len(chunk) + 1) > max_tokens:
            yield pad(chunk, device=device)
            chunk = []
        chunk.append(sample)
    if chunk:
        yield pad(chunk, device=device)


def pad(samples: Sequence[TrainingSample], *, device: torch.device) -> MicroBatch:
    """Return the samples as one micro-batch on the device."""
    width = max(len(sample.token_ids) for sample in samples)
    ids_BT = torch.zeros(len(samples), width, dtype=torch.long)
    attention_BT = torch.zeros(len(samples), width, dtype=torch.long)
    predicting_BT = torch.zeros(len(samples), width, dtype=torch.bool)
    targets: list[int] = []
    sampled: list[float] = []
    advantages: list[float] = []
    temperatures: list[float] = []
    for row, sample in enumerate(samples):
        length = len(sample.token_ids)
        ids_BT[row, :length] = torch.tensor(sample.token_ids)
        attention_BT[row, :length] = 1
        predicting_BT[row, : length - 1] = torch.tensor(sample.mask[1:], dtype=torch.bool)
        places = [place for place in range(1, length) if sample.mask[place]]
        targets += [sample.token_ids[place] for place in places]
        sampled += [sample.logprobs[place] for place in places]
        advantages += [sample.advantage] * len(places)
        temperatures += [sample.temperature] * len(places)
    return MicroBatch(
        ids_BT=ids_BT.to(device),
        attention_BT=attention_BT.to(device),
        predicting_BT=predicting_BT.to(device),
        targets_N=torch.tensor(targets, dtype=torch.long, device=device),
        sampled_logprobs_N=torch.tensor(sampled, dtype=torch.float32, device=device),
        advantages_N=torch.tensor(advantages, dtype=torch.float32, device=device),
        temperatures_N=torch.tensor(temperatures, dtype=torch.float32, device=device),
    )
