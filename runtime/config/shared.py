"""Shared values at the top of a file, copied into the tables of the components before validation.

A value that a component sets differently is an error, not an override: a later change of the shared
one would silently not reach it.
"""

from runtime.config.spellings import Origins, Path, lookup
from runtime.config.toml_text import Table
from runtime.errors import Problem


def _row(shared: str, *targets: str) -> tuple[Path, tuple[Path, ...]]:
    return tuple(shared.split(".")), tuple(tuple(target.split(".")) for target in targets)


COPIES = (
    _row("model.name", "trainer.model.name", "orchestrator.model.name", "inference.vllm.model"),
    _row("model.vlm", "trainer.model.vlm", "orchestrator.model.vlm"),
    _row("log.level", "trainer.log.level", "orchestrator.log.level", "inference.log.level"),
    _row(
        "log.json_logging",
        "trainer.log.json_logging",
        "orchestrator.log.json_logging",
        "inference.log.json_logging",
    ),
    _row("ckpt.output_dir", "trainer.ckpt.output_dir"),
    *(
        _row(f"ckpt.{key}", f"trainer.ckpt.{key}", f"orchestrator.ckpt.{key}")
        for key in ("interval", "keep_last", "keep_interval")
    ),
    *(
        _row(
            f"monitors.wandb.{key}",
            f"trainer.monitors.wandb.{key}",
            f"orchestrator.monitors.wandb.{key}",
        )
        for key in ("project", "entity", "name", "group", "tags", "offline")
    ),
    _row("monitors.file.path", "trainer.monitors.file.path", "orchestrator.monitors.file.path"),
    _row("monitors.prime.name", "orchestrator.monitors.prime.name"),
    _row("tokenizer.name", "trainer.tokenizer.name", "orchestrator.tokenizer.name"),
    _row(
        "tokenizer.trust_remote_code",
        "trainer.tokenizer.trust_remote_code",
        "orchestrator.tokenizer.trust_remote_code",
    ),
    _row(
        "tokenizer.chat_template",
        "trainer.tokenizer.chat_template",
        "orchestrator.tokenizer.chat_template",
        "inference.vllm.chat_template",
    ),
    _row("rollout_transport", "trainer.rollout_transport", "orchestrator.rollout_transport"),
    _row("max_steps", "trainer.max_steps", "orchestrator.max_steps"),
    _row("seq_len", "trainer.model.seq_len", "orchestrator.seq_len"),
    _row("slurm", "inference.slurm"),
    _row("trainer.tokenizer.chat_template", "inference.vllm.chat_template"),
)
"""Shared path -> where it goes; the last row serves a template that only the trainer sets."""

PRESENCE = (
    _row("ckpt", "trainer.ckpt", "orchestrator.ckpt"),
    _row("monitors.wandb", "trainer.monitors.wandb", "orchestrator.monitors.wandb"),
    _row("monitors.file", "trainer.monitors.file", "orchestrator.monitors.file"),
    _row("monitors.prime", "orchestrator.monitors.prime"),
)
"""Tables whose presence, even empty, or whose being "None" switches the components' tables."""


def copy_shared(table: Table, origins: Origins) -> list[Problem]:
    """Fill the components' tables and return every value that disagrees with its shared one."""
    problems: list[Problem] = []
    for shared, targets in COPIES:
        value = lookup(table, shared)
        if value is None:
            continue
        for target in targets:
            other = lookup(table, target)
            if other is not None and other != value:
                problems.append(_conflict(shared, target, origins))
            else:
                _fill(table, target, value, shared=shared, origins=origins)
    for shared, targets in PRESENCE:
        value = lookup(table, shared)
        if isinstance(value, dict) or value == "None":
            for target in targets:
                switch = {} if isinstance(value, dict) else value
                _fill(table, target, switch, shared=shared, origins=origins)
    return problems


def _fill(table: Table, path: Path, value: object, *, shared: Path, origins: Origins) -> None:
    node: object = table.get(path[0])  # a component that the file lacks is not made
    for part in path[1:-1]:
        if not isinstance(node, dict):
            return
        if part not in node:
            node[part] = {}
        node = node[part]
    if isinstance(node, dict) and path[-1] not in node:
        node[path[-1]] = value
        origins.written[path] = shared


def _conflict(shared: Path, target: Path, origins: Origins) -> Problem:
    top, below = ".".join(origins.path(shared)), ".".join(origins.path(target))  # type: ignore[arg-type]  # no indices here
    return Problem(
        loc=origins.path(target),
        message=f"{below} disagrees with the shared {top}",
        fix=f"set it in one place: remove {below}, or {top}",
        code="conflict",
    )
