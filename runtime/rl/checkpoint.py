"""Checkpoints of the trainer: `checkpoints/step_N/{trainer,orchestrator}`, whole or absent.

`trainer/` is a Hugging Face directory plus state.pt (optimizer, random state),
`orchestrator/progress.json` came with the batch of step N. Rank 0 writes the folder under a
temporary name and renames it, so a folder with that name is complete, and an interrupted save
leaves nothing that could be taken for one.
"""

import shutil
from pathlib import Path

import torch

from runtime.artifacts import RunDirectory
from runtime.checkpoints import checkpoint_steps
from runtime.rl.learner import Learner
from runtime.rl.steps import PROGRESS, step_folder, whole_folder
from runtime.rl.views import CheckpointView
from runtime.rl.weights import load_weights, save_weights

TRAINER_PART = "trainer"
ORCHESTRATOR_PART = "orchestrator"
_STATE = "state.pt"


def is_due(config: CheckpointView | None, step: int, max_steps: int | None) -> bool:
    """Tell whether a step ends with a checkpoint: at every interval and after the last step."""
    if config is None:
        return False
    return step == max_steps or (config.interval is not None and step % config.interval == 0)


def save(run: RunDirectory, learner: Learner, step: int, *, model_folder: Path) -> None:
    """Write the checkpoint of a step; tokenizer files are copied from the model's own folder."""
    with whole_folder(step_folder(run.checkpoints, step)) as folder:
        trainer = folder / TRAINER_PART
        trainer.mkdir()
        save_weights(learner.model, trainer)
        for pattern in (
            "tokenizer*",
            "chat_template*",
            "special_tokens_map.json",
            "vocab*",
            "merges*",
        ):
            for file in model_folder.glob(pattern):
                shutil.copy2(file, trainer)
        state = {
            "step": step,
            "optimizer": learner.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
        torch.save(state, trainer / _STATE)
        progress = step_folder(run.rollouts, step) / PROGRESS
        if progress.is_file():
            (folder / ORCHESTRATOR_PART).mkdir()
            shutil.copy2(progress, folder / ORCHESTRATOR_PART / PROGRESS)


def remove_old(run: RunDirectory, config: CheckpointView) -> None:
    """Remove checkpoints beyond keep_last, except every keep_interval-th step."""
    if config.keep_last is None:
        return
    for step in checkpoint_steps(run.checkpoints)[: -config.keep_last]:
        if config.keep_interval is None or step % config.keep_interval != 0:
            shutil.rmtree(step_folder(run.checkpoints, step), ignore_errors=True)


def load(folder: Path, learner: Learner, *, skip_optimizer: bool = False) -> int:
    """Restore weights, optimizer and random state; return the step that is done."""
    trainer = folder / TRAINER_PART
    load_weights(learner.model, trainer)
    state = torch.load(trainer / _STATE, weights_only=True)
    if not skip_optimizer:
        learner.optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    return int(state["step"])
