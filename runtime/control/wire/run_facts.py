"""What the client shows of a run's config: batch size, steps, learning rate, W&B.

Read off the TOML with the hosted spellings applied, without the whole schema: a list shows many
runs, and their configs were judged when they were dispatched.
"""

from dataclasses import dataclass
from functools import lru_cache

from runtime.config.spellings import Origins, apply_spellings, lookup
from runtime.config.toml_text import Table, UnreadableError, parse

_CACHED_CHARS = 32_768


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """Values as the user wrote them; None = not written, so prime-rl's own default."""

    batch_size: int | None = None
    group_size: int | None = None
    seq_len: int | None = None
    max_tokens: int | None = None
    learning_rate: float | None = None
    max_inflight: int | None = None
    wandb_entity: str | None = None
    wandb_project: str | None = None
    wandb_name: str | None = None


def run_facts(text: str) -> RunFacts:
    """Return the facts of a config; an adopted run's may be unreadable, then there are none."""
    return _cached(text) if len(text) <= _CACHED_CHARS else _read(text)


@lru_cache(maxsize=1024)
def _cached(text: str) -> RunFacts:
    return _read(text)


def _read(text: str) -> RunFacts:
    try:
        table = parse(text)
    except UnreadableError:
        return RunFacts()
    apply_spellings(table, Origins())
    return RunFacts(
        batch_size=_integer(table, "orchestrator.batch_size"),
        group_size=_integer(table, "orchestrator.group_size"),
        seq_len=_integer(table, "seq_len"),
        max_tokens=_integer(table, "orchestrator.train.sampling.max_completion_tokens"),
        learning_rate=_number(table, "trainer.optim.lr"),
        max_inflight=_integer(table, "orchestrator.concurrency.max_inflight"),
        wandb_entity=_text(table, "monitors.wandb.entity"),
        wandb_project=_text(table, "monitors.wandb.project"),
        wandb_name=_text(table, "monitors.wandb.name"),
    )


def _integer(table: Table, path: str) -> int | None:
    value = lookup(table, tuple(path.split(".")))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(table: Table, path: str) -> float | None:
    value = lookup(table, tuple(path.split(".")))
    return float(value) if isinstance(value, int | float) else None


def _text(table: Table, path: str) -> str | None:
    value = lookup(table, tuple(path.split(".")))
    return value if isinstance(value, str) else None
