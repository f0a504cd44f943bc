"""`[ckpt]` and `[resume]`: what is saved, how long it is kept, where a run starts from.

Checkpoints of step N lie in `<run directory>/checkpoints/step_N/`.
"""

from pathlib import Path

from runtime.config.block import Block, Count


class SharedCheckpoint(Block):
    """`[ckpt]`: presence turns checkpoints on for trainer and orchestrator."""

    output_dir: Path | None = None
    """Other place for the trainer's part, which is the large one; unset = the run directory."""

    interval: Count | None = None
    """Steps between checkpoints; unset = one, after the last step."""

    keep_last: Count | None = None
    """Newest checkpoints to keep; unset = all."""

    keep_interval: Count | None = None
    """Keep every checkpoint whose step is a multiple of this, whatever `keep_last` says."""


class TrainerCheckpoint(SharedCheckpoint):
    """`[trainer.ckpt]`: weights, optimizer, scheduler and progress."""

    skip_progress: bool = False
    """Do not load step and token counts on resume."""

    skip_scheduler: bool = False
    """Do not load the learning rate schedule on resume."""

    skip_dataloader: bool = False
    """Do not load the data position on resume."""

    skip_optimizer: bool = False
    """Do not load optimizer state on resume."""


class OrchestratorCheckpoint(Block):
    """`[orchestrator.ckpt]`: the position in the data and the counters."""

    interval: Count | None = None
    """Steps between checkpoints; the same as the trainer's."""

    wait_for_weights_timeout: Count | None = None
    """Seconds to wait for the first broadcast weights; unset = 1200. Raise it for large models on
    slow shared storage."""

    keep_last: Count | None = None
    """Newest checkpoints to keep; unset = all."""

    keep_interval: Count | None = None
    """Keep every checkpoint whose step is a multiple of this."""

    skip_progress: bool = False
    """Do not load the counters on resume."""


class Resume(Block):
    """`[resume]`: start from a checkpoint; an empty table takes the newest of the run."""

    step: Count | None = None
    """Step of this run to start from; not together with `dir`."""

    dir: Path | None = None
    """A `step_<N>` directory, of another run too."""
