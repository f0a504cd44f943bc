"""`[slurm]`: accepted so that a file written for SLURM runs unchanged, and ignored with a notice.

Keys that would make a launcher run somebody's text are refused by `rules.safety`.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from runtime.config.block import Block


class Slurm(Block):
    """How prime-rl would submit the run to SLURM."""

    job_name: str = "prime-rl"
    """Name in the queue."""

    project_dir: Path = Path(".")
    """Checkout that the job would run from."""

    template_path: Path | None = None
    """Template of the batch script; refused, paddock renders none."""

    partition: str = "cluster"
    """Partition to submit to."""

    nodelist: str | None = None
    """Nodes to use."""

    exclude: str | None = None
    """Nodes to leave out."""

    account: str | None = None
    """Account to charge."""

    time: str | None = None
    """Time limit of the job."""

    pre_run_command: str | None = None
    """Shell text to run before the job; refused, paddock runs none."""

    cleanup_grace_period: Annotated[int, Field(ge=0)] = 3600
    """Seconds between the end of training and the end of the job."""

    shared_fs: bool = True
    """Whether all nodes see one file system."""
