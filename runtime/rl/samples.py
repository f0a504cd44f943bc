"""Training samples and the batch file of a rank: msgpack, never pickle.

Written by the orchestrator, read by the trainer. Torch-free.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgpack

from runtime.rl.steps import write_whole


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingSample:
    """One branch of one episode; the four lists are aligned.

    `logprobs` are the sampling engine's at `temperature`, 0 where `mask` is false. `advantage`
    holds for every sampled token.
    """

    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    advantage: float
    temperature: float

    @property
    def num_loss_tokens(self) -> int:
        """Return how many tokens the loss counts; the first token of all has no prediction."""
        return sum(self.mask[1:])


def split_by_rank(samples: Sequence[TrainingSample], num_ranks: int) -> list[list[TrainingSample]]:
    """Deal the samples to the ranks, the longest first, so that ranks get about the same work."""
    ordered = sorted(samples, key=lambda sample: len(sample.token_ids), reverse=True)
    return [ordered[rank::num_ranks] for rank in range(num_ranks)]


def write_batch(path: Path, samples: Sequence[TrainingSample]) -> None:
    """Write the batch file of a rank; it appears whole or not at all."""
    packed = msgpack.packb([asdict(sample) for sample in samples], use_bin_type=True)
    assert packed is not None
    write_whole(path, packed)


def read_batch(path: Path) -> list[TrainingSample]:
    """Read the batch file of a rank."""
    return [TrainingSample(**item) for item in msgpack.unpackb(path.read_bytes())]
