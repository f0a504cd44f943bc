"""Rules about tasksets whose package is known without importing it.

A taskset defines further keys and, when it is a game, the names of its seats. Only what is certain
of the bare ids is written here; every other taskset's keys stay open.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

from runtime.config.rl import RLConfig
from runtime.config.rules.rule import at, broken, rule
from runtime.config.source import Source
from runtime.config.tables import placed_sources
from runtime.errors import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTaskset:
    """What is known of a taskset: its seats, and the values that a key of its own takes."""

    seats: tuple[str, ...] = ("agent",)
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)


KNOWN = {
    "wordle": KnownTaskset(seats=("player",)),
    "gsm8k": KnownTaskset(choices={"split": ("train", "test")}),
}
"""Source: the environments that prime-rl's images carry, at the mirrored revision."""

_ENV_KEYS = ("taskset", "timeout", "retries", "max_concurrent_agents", "interception")


@rule("orchestrator.train.source", "orchestrator.eval.source")
def known_tasksets_are_used_right(config: RLConfig) -> Iterator[Problem]:
    """Seats and choices of the known tasksets."""
    for loc, source in placed_sources(config):
        known = KNOWN.get(source.taskset_id.split("@")[0])
        if known is None or source.env.id:
            continue
        for seat in _written_seats(source):
            if seat not in known.seats:
                yield broken(
                    (*loc, "env", seat),
                    f"the taskset {source.taskset_id} has no seat {seat}, its seats are: "
                    f"{', '.join(known.seats)}",
                    fix=f"write env.{known.seats[0]}",
                )
        for key, allowed in known.choices.items():
            value = (source.env.taskset.model_extra or {}).get(key)
            if value is not None and value not in allowed:
                yield broken(
                    (*loc, *at("env.taskset", key)),
                    f'"{value}" is not one of: {", ".join(allowed)}',
                )


def _written_seats(source: Source) -> list[str]:
    named = list(source.env.model_extra or {})
    return [*named, *(["agent"] if "agent" in source.env.model_fields_set else [])]


@rule("orchestrator.train.source", "orchestrator.eval.source")
def env_keys_are_spelled_right(config: RLConfig) -> Iterator[Problem]:
    """A further key of `env` is not one of its own with a slip in it."""
    for loc, source in placed_sources(config):
        for key in source.env.model_extra or {}:
            near = get_close_matches(key, _ENV_KEYS, n=1, cutoff=0.85)
            if near:
                yield broken(
                    (*loc, "env", key), f"unknown key {key}", fix=f"did you mean {near[0]}?"
                )


RULES = (known_tasksets_are_used_right, env_keys_are_spelled_right)
