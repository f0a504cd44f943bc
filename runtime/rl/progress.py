"""The orchestrator's progress: what a resumed run needs to go on with fresh tasks.

Written beside each batch (`rollouts/step_N/progress.json`), so that it is there before the trainer
can save a checkpoint of that step, and copied into it.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from runtime.artifacts import RunDirectory
from runtime.rl.sources import Source
from runtime.rl.steps import PROGRESS, step_folder, write_whole


def write_progress(run: RunDirectory, step: int, sources: Sequence[Source]) -> None:
    """Write the progress at a step's batch."""
    body = {"step": step, "num_drawn": {source.name: source.num_drawn for source in sources}}
    write_whole(step_folder(run.rollouts, step) / PROGRESS, json.dumps(body).encode())


def read_num_drawn(checkpoint: Path | None) -> dict[str, int]:
    """Return how many tasks each source had given out; empty without a checkpoint's progress."""
    path = checkpoint / "orchestrator" / PROGRESS if checkpoint is not None else None
    if path is None or not path.is_file():
        return {}
    return dict(json.loads(path.read_text())["num_drawn"])
