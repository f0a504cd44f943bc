"""The example configs of tests/data/prime-rl, read once for the tests of runtime.config."""

import json
from pathlib import Path
from typing import Any

from runtime.config import LoadedConfig, load_config
from runtime.errors import ConfigError

DATA = Path(__file__).resolve().parents[2] / "data" / "prime-rl"

MINIMAL = """
max_steps = 10

[model]
name = "Qwen/Qwen3-0.6B"

[trainer]

[orchestrator]
batch_size = 64
group_size = 8

[[orchestrator.train.source]]
name = "reverse-text"
env.taskset.id = "reverse-text"
env.agent.harness.id = "null"
env.agent.runtime.type = "subprocess"

[inference]
"""


def rows(name: str) -> list[dict[str, Any]]:  # JSON lines of several shapes
    """Return the rows of a JSON lines file of the data directory."""
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def refusal(text: str | bytes) -> ConfigError | None:
    """Return the error that a text is refused with, None where it is accepted."""
    try:
        load_config(text)
    except ConfigError as error:
        return error
    return None


def paths_of(text: str | bytes) -> list[str]:
    """Return the dotted paths of a refused text's problems."""
    error = refusal(text)
    assert error is not None, "accepted"
    return [problem.path for problem in error.problems]


def said_about(text: str | bytes) -> tuple[LoadedConfig | None, str]:
    """Return the config, where there is one, and all that was said about it."""
    try:
        loaded = load_config(text)
    except ConfigError as error:
        return None, str(error)
    return loaded, "\n".join(map(str, loaded.notices))
