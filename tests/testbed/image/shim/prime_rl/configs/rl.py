"""RLConfig as resolve.py uses it, backed by paddock's own mirror of prime-rl's schema.

As strict as prime-rl: it knows no hosted spelling, and wants [slurm] for more than one node. Two
things are the embedded engine's: a source's env table stays as the user wrote it, since its
defaults belong to the installed verifiers, and the harness `null` may run in the env server.
"""

import os
from typing import Any

from runtime.config import MultiNodeDeployment
from runtime.config import RLConfig as Native
from runtime.config.derive import derive
from runtime.config.rules import broken_rules
from runtime.config.shared import copy_shared
from runtime.config.spellings import Origins

Json = dict[str, Any]
IN_PROCESS = "inproc-null"


class Part:
    """A component's resolved configuration."""

    def __init__(self, dump: Json) -> None:
        self._dump = dump

    def model_dump(self, mode: str = "json") -> Json:
        """Return it as JSON."""
        assert mode == "json"
        return self._dump


class RLConfig:
    """A resolved RL config with the three components that prime-rl's launcher splits it into."""

    def __init__(self, config: Native) -> None:
        inference = config.inference
        self.trainer = Part(config.trainer.model_dump(mode="json"))
        self.orchestrator = Part(_orchestrator(config))
        self.inference = Part(inference.model_dump(mode="json")) if inference else None

    @classmethod
    def model_validate(cls, table: Json) -> "RLConfig":
        """Return the config of a table. Raises ValueError, mostly pydantic's."""
        problems = copy_shared(table, Origins())
        config = Native.model_validate(table)
        problems += broken_rules(config, set())
        if problems:
            raise ValueError("; ".join(map(str, problems)))
        if isinstance(config.deployment, MultiNodeDeployment) and config.slurm is None:
            raise ValueError("Must use SLURM for multi-node deployment.")
        derive(config, digest="testbed")
        return cls(config)


def _orchestrator(config: Native) -> Json:
    dump = config.orchestrator.model_dump(mode="json")
    for part in ("train", "eval"):
        block = getattr(config.orchestrator, part)
        for index, source in enumerate(block.source if block else []):
            env = source.env.model_dump(mode="json", exclude_unset=True)
            harness = (env.get("agent") or {}).get("harness") or {}
            in_process = os.environ.get("PADDOCK_NULL_HARNESS") == "in-process"
            if in_process and harness.get("id") == "null":
                harness["id"] = IN_PROCESS
            dump[part]["source"][index]["env"] = env
    return dump
