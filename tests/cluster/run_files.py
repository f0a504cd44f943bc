"""TOML files of runs for real pods: copies of the examples, made small enough for two cores."""

from collections.abc import Mapping
from pathlib import Path

from runtime import models

EXAMPLES = Path(__file__).parents[2] / "examples"


def demo() -> str:
    """Return the demo as it stands."""
    return (EXAMPLES / "demo.toml").read_text()


def small_demo(*, max_steps: int, lr: str = "5e-5", interval: int = 50) -> str:
    """Return a demo of small steps, about a second each on two cores."""
    changes = {
        "max_steps = 100": f"max_steps = {max_steps}",
        "batch_size = 64": "batch_size = 16",
        "lr = 5e-5": f"lr = {lr}",
        "interval = 50": f"interval = {interval}",
    }
    return _changed(demo(), changes)


def endless_demo(*, lr: str = "5e-9") -> str:
    """Return a small demo that goes on until somebody ends it.

    It learns next to nothing: one that reaches every reward ends by itself, in three minutes, for
    want of a sample with an advantage.
    """
    return small_demo(max_steps=5000, lr=lr)


def multi_node() -> str:
    """Return the multi-node example at two small steps; deployment, ep, tp, broadcast as it is."""
    changes = {
        'name = "Qwen/Qwen3-30B-A3B-Thinking-2507"': f'name = "{models.TINY_MODEL}"',
        "seq_len = 32768": "seq_len = 256\nmax_steps = 2",
        "batch_size = 512": "batch_size = 16\ngroup_size = 8\nrenderer.name = 'prime-qwen3'",
        "max_completion_tokens = 32768": "max_completion_tokens = 8",
        'id = "i3_math"': 'id = "arithmetic"',
    }
    return _changed((EXAMPLES / "multi-node.toml").read_text(), changes)


def _changed(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text
