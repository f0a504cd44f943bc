"""A tiny Qwen3-architecture model that can do the bundled tasks but is undecided; cached.

Reinforcement learning teaches a model only what it sometimes does right. So the model is first
taught the tasks, then softened on a mixture in which most answers are random: it ends knowing the
answer and giving it about every third time. `python -m runtime.rl.tiny_model` makes or finds it
and prints its path.
"""

import fcntl
import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from runtime import homes
from runtime.cluster import models_folder

NAME = "tiny-qwen3"

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Everything that the weights depend on; its hash names the cache folder."""

    version: int = 1
    hidden_size: int = 96
    intermediate_size: int = 256
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    max_length: int = 2048
    learn_steps: int = 240
    soften_steps: int = 60
    batch_size: int = 64
    lr: float = 3e-3
    right_share: float = 0.25
    arithmetic_share: float = 0.3
    seed: int = 0

    @property
    def digest(self) -> str:
        """Return a short hash of the recipe."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


def tiny_model_path(cache: Path, recipe: Recipe | None = None) -> Path:
    """Return where the model of a recipe lies, whether it is there or not."""
    return models_folder(str(cache)) / f"{NAME}-{(recipe or Recipe()).digest}"


def ensure_tiny_model(
    cache: Path, *, progress: Progress = print, recipe: Recipe | None = None
) -> Path:
    """Return the model's folder, making it first where it is missing (about 20 s on one core)."""
    recipe = recipe or Recipe()
    target = tiny_model_path(cache, recipe)
    with _locked(target.with_name(f".{target.name}.lock")):
        if not target.is_dir():
            from runtime.rl.steps import whole_folder
            from runtime.rl.tiny_training import make_model

            started = time.monotonic()
            progress(f"Making the tiny model {target.name} (once, then cached)")
            with whole_folder(target) as folder:
                make_model(folder, recipe, progress=progress)
            progress(f"Made {target} in {time.monotonic() - started:.0f} s")
    return target


def examples(
    recipe: Recipe, rng: random.Random, *, right_share: float
) -> Iterator[tuple[str, str, str]]:
    """Yield (instruction, prompt, answer) without end; answers are right with the given share."""
    while True:
        right = rng.random() < right_share
        if rng.random() < recipe.arithmetic_share:
            left, other = rng.randint(0, 9), rng.randint(0, 9)
            value = left + other if right else rng.randint(0, 18)
            yield "Add the numbers.", f"{left}+{other}", str(value)
        else:
            text = _letters(rng, rng.randint(3, 4))
            yield "Reverse the text.", text, text[::-1] if right else _letters(rng, len(text))


def main() -> None:
    """Make or find the model and print its folder."""
    folder = ensure_tiny_model(
        homes.cache_path(), progress=lambda line: print(line, file=sys.stderr)
    )
    print(folder)


def _letters(rng: random.Random, count: int) -> str:
    return "".join(rng.choice("abcdefgh") for _ in range(count))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
