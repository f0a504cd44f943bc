"""Where a run goes on: the checkpoint that [resume] names, for trainer and orchestrator alike."""

import logging
from pathlib import Path

from runtime.artifacts import RunDirectory
from runtime.checkpoints import checkpoint_steps, last_checkpoint_step
from runtime.errors import EngineError
from runtime.rl.steps import step_folder, step_of
from runtime.rl.views import ResumeView

logger = logging.getLogger(__name__)


def find_resume(run: RunDirectory, resume: ResumeView | None) -> Path | None:
    """Return the checkpoint folder to go on from; None starts from the model.

    Raises EngineError when the one asked for is not there. An empty [resume] without any checkpoint
    starts from the model, as prime-rl does.
    """
    if resume is None:
        return None
    if resume.dir is not None:
        folder = resume.dir
    else:
        step = resume.step if resume.step is not None else last_checkpoint_step(run.checkpoints)
        if step is None:
            logger.warning("[resume] without a checkpoint in %s: starting anew", run.checkpoints)
            return None
        folder = step_folder(run.checkpoints, step)
    if step_of(folder) is None or not folder.is_dir():
        have = checkpoint_steps(run.checkpoints)
        raise EngineError(f"[resume] no checkpoint {folder}; steps that can be resumed: {have}")
    return folder
