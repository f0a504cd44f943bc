"""A causal language model from a Hugging Face directory or the cache, and where it lives.

Loads whatever `AutoModelForCausalLM` knows, never from the network. Callers are the trainer, the
inference engine and the maker of the tiny model.
"""

import os
import warnings
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from runtime.errors import EngineError

THREADS_VARIABLE = "PADDOCK_TORCH_THREADS"
"""Threads a process may use for CPU tensors; 1 by default, since processes share the cores."""


def use_threads() -> None:
    """Set torch's thread count from the environment."""
    torch.set_num_threads(int(os.environ.get(THREADS_VARIABLE) or 1))


def pick_device(local_rank: int = 0) -> torch.device:
    """Return the CUDA device of a local rank where there is one, else the CPU."""
    if torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        return device
    return torch.device("cpu")


def model_folder(name: str) -> Path:
    """Return the directory of a model, given its path or its name in the Hugging Face cache.

    Raises EngineError where there is none; nothing is downloaded.
    """
    if (Path(name) / "config.json").is_file():
        return Path(name)
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):  # not in the cache, or no name of a model at all
        raise EngineError(
            f"no model at {name}: a Hugging Face directory with config.json and safetensors "
            "weights is needed, or a model's name in the cache at HF_HOME "
            "(`python -m runtime.rl.tiny_model` makes a tiny one)"
        ) from None


def load_model(name: str, *, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """Load a causal LM onto the device; raises EngineError where there is none."""
    folder = model_folder(name)
    disable_progress_bar()
    # Said once a process for a name that both 5.0 and 5.39 know; the lock pins one between them.
    warnings.filterwarnings("ignore", message="`past_key_values` is deprecated")
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, local_files_only=True, attn_implementation="sdpa"
    )
    return model.to(device)  # pyright: ignore[reportArgumentType] - stubs of to() miss devices


def serving_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype to serve in: float32 on CPU; the file's, or bfloat16 for auto, on CUDA."""
    if device.type == "cpu":
        return torch.float32
    named = {"float32": torch.float32, "float16": torch.float16, "half": torch.float16}
    return named.get(name, torch.bfloat16)
