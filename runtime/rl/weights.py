"""Weights as Hugging Face directories of safetensors: written by the trainer, read by inference.

A broadcast is `broadcasts/step_N/` with config, model.safetensors and an empty STABLE file; it
appears under its name only when whole.
"""

import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import PreTrainedModel

from runtime.errors import EngineError
from runtime.rl.steps import STABLE, list_steps, step_folder, whole_folder

NUM_KEPT_BROADCASTS = 2
"""Older versions are removed: an engine may still be reading the one before the newest."""


def publish(model: PreTrainedModel, broadcasts: Path, version: int) -> None:
    """Write a version of the weights and remove versions that nobody can be reading."""
    with whole_folder(step_folder(broadcasts, version)) as folder:
        save_weights(model, folder)
        (folder / STABLE).touch()
    for step in list_steps(broadcasts):
        if step <= version - NUM_KEPT_BROADCASTS:
            shutil.rmtree(step_folder(broadcasts, step), ignore_errors=True)


def save_weights(model: PreTrainedModel, folder: Path) -> None:
    """Write a model as a Hugging Face directory: config and one safetensors file.

    Done by hand because `save_pretrained` draws progress bars and takes several times as long for a
    small model, and this happens every step.
    """
    tied = set(model.all_tied_weights_keys or {})
    state = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in model.state_dict().items()
        if name not in tied
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)


def load_weights(model: PreTrainedModel, folder: Path) -> None:
    """Copy the weights of a Hugging Face directory into a live model.

    Everything is read before the first parameter changes, so a broken file leaves the model as it
    was. Raises EngineError when names or shapes do not fit.
    """
    fresh = _read_all(folder)
    parameters = model.state_dict()
    tied = set(model.all_tied_weights_keys or {})
    missing = sorted(set(parameters) - set(fresh) - tied)
    unknown = sorted(set(fresh) - set(parameters))
    wrong = [
        name
        for name, tensor in fresh.items()
        if name in parameters and tensor.shape != parameters[name].shape
    ]
    if missing or unknown or wrong:
        raise EngineError(
            f"weights in {folder} do not fit the served model: missing {missing[:3]}, "
            f"unknown {unknown[:3]}, other shape {wrong[:3]}"
        )
    with torch.no_grad():
        for name, tensor in fresh.items():
            parameters[name].copy_(tensor)


def _read_all(folder: Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EngineError(f"no safetensors weights in {folder}")
    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            tensors.update({name: opened.get_tensor(name) for name in opened.keys()})  # noqa: SIM118
    return tensors
