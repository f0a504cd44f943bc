"""Fixtures of the embedded engine's tests."""

from pathlib import Path

import pytest

from runtime import homes
from runtime.rl.tiny_model import Recipe, ensure_tiny_model


@pytest.fixture(scope="session")
def tiny_model() -> str:
    """Return the warmed-up tiny model; made once on a machine (about 20 s)."""
    return str(ensure_tiny_model(homes.cache_path()))


@pytest.fixture(scope="session")
def raw_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a small model with all but random weights: for numbers, not for learning."""
    recipe = Recipe(hidden_size=32, num_layers=2, head_dim=16, learn_steps=2, soften_steps=1)
    cache: Path = tmp_path_factory.mktemp("cache")
    return str(ensure_tiny_model(cache, progress=lambda line: None, recipe=recipe))
