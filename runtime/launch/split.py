"""Split a resolved config into the files that the components read, with the run's real addresses.

Pure. The shape is prime-rl's own split (one JSON a component), so that the same file serves the
image and the embedded engine. For pods the image's prime-rl does this itself (`resolve.py`).
"""

from dataclasses import dataclass
from typing import Any

from runtime import naming
from runtime.config import RLConfig
from runtime.launch.addresses import AddressBook, engine_addresses
from runtime.launch.components import ZMQ, Component
from runtime.launch.unsupported import engine_notices
from runtime.plan import RunPlan

Json = dict[str, Any]  # Any: a JSON object on its way into a file

IN_PROCESS_HARNESS = "inproc-null"
"""Harness id of runtime.rl.tasksets.inproc_null."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalPlacement:
    """What a local run knows about its machine when it starts."""

    run_path: str
    model_path: str
    resume: bool


def split_local(
    config: RLConfig,
    plan: RunPlan,
    components: tuple[Component, ...],
    *,
    book: AddressBook,
    placement: LocalPlacement,
) -> dict[str, Json]:
    """Return path (relative to configs/) to content for every component of a local run.

    The embedded engine moves weights and rollouts through files of the run directory, whatever the
    config says for GPUs; `local_notices` tells the user.
    """
    trainer = config.trainer.model_dump(mode="json")
    orchestrator = config.orchestrator.model_dump(mode="json")
    _set_shared(trainer, placement)
    _set_shared(orchestrator, placement)
    engines = engine_addresses(components, book)
    if engines:
        client = orchestrator["model"]["client"]
        client["base_url"] = engines[0].api
        client["admin_base_url"] = [engine.api for engine in engines]
    files: dict[str, Json] = {}
    for split, position in _positions(config):
        source = orchestrator[split]["source"][position]
        source["env"] = _written_env(config, split, position)
        _set_harness(source, plan)
        name = naming.component_name(naming.ENV_SERVER, split=split, source=source["name"])
        if (name, ZMQ) in book:
            source["serve"]["address"] = book[name, ZMQ].tcp
            files[f"envs/{split}/{source['name']}.json"] = _env_file(source, orchestrator)
    files["trainer.json"] = trainer
    files["orchestrator.json"] = orchestrator
    if config.inference is not None and engines:
        files["inference.json"] = _inference_file(config, placement)
    return files


def _positions(config: RLConfig) -> list[tuple[str, int]]:
    """Return (split, index in its list) of every source in prime-rl's order: train, then eval."""
    counts = {"train": 0, "eval": 0}
    found = []
    for split, _ in config.orchestrator.sources:
        found.append((split, counts[split]))
        counts[split] += 1
    return found


def _written_env(config: RLConfig, split: str, position: int) -> Json:
    """Return a source's env table as the user wrote it.

    Its defaults belong to the installed verifiers, whose schema is not that of prime-rl's revision.
    """
    block = config.orchestrator.train if split == "train" else config.orchestrator.eval
    assert block is not None
    return block.source[position].env.model_dump(mode="json", exclude_unset=True)


def local_notices(config: RLConfig, plan: RunPlan) -> tuple[str, ...]:
    """Return what the local target does differently from what the file says, one sentence each."""
    notices = []
    if plan.weight_broadcast != "filesystem":
        notices.append(
            f"weight_broadcast {plan.weight_broadcast}: the embedded engine broadcasts weights "
            "through files of the run directory"
        )
    if plan.rollout_transport != "filesystem":
        notices.append(
            f"rollout_transport {plan.rollout_transport}: the embedded engine passes rollouts "
            "through files of the run directory"
        )
    if plan.null_harness == "in-process" and any(_uses_null(config)):
        notices.append(
            "harness null: run inside the env server instead of as one Python process an episode; "
            "paddock:nullHarness = subprocess keeps the real one"
        )
    inference = config.inference.model_dump(mode="json") if config.inference else None
    notices += engine_notices(
        trainer=config.trainer.model_dump(mode="json"),
        orchestrator=config.orchestrator.model_dump(mode="json"),
        inference=inference,
    )
    return tuple(notices)


def _uses_null(config: RLConfig) -> list[bool]:
    dumped = config.orchestrator.model_dump(mode="json")
    return [
        _harness_id(dumped[split]["source"][position]) == "null"
        for split, position in _positions(config)
    ]


def _harness_id(source: Json) -> str | None:
    agent = source["env"].get("agent") or {}
    harness = agent.get("harness") or {}
    return harness.get("id")


def _set_harness(source: Json, plan: RunPlan) -> None:
    if plan.null_harness == "in-process" and _harness_id(source) == "null":
        source["env"]["agent"]["harness"]["id"] = IN_PROCESS_HARNESS


def _set_shared(component: Json, placement: LocalPlacement) -> None:
    component["output_dir"] = placement.run_path
    component["model"]["name"] = placement.model_path
    component["tokenizer"]["name"] = placement.model_path
    component["weight_broadcast"] = {"type": "filesystem"}
    component["rollout_transport"] = {"type": "filesystem"}
    if placement.resume:
        component["resume"] = {"step": None, "dir": None}


def _env_file(source: Json, orchestrator: Json) -> Json:
    log = orchestrator["log"]
    return {
        "env": source["env"],
        "serve": source["serve"],
        "log": {"level": log["vf_level"], "json_logging": log["json_logging"]},
    }


def _inference_file(config: RLConfig, placement: LocalPlacement) -> Json:
    assert config.inference is not None
    inference = config.inference.model_dump(mode="json")
    for launcher_key in ("deployment", "slurm", "output_dir", "dry_run"):
        inference.pop(launcher_key, None)
    inference["vllm"]["model"] = placement.model_path
    inference["weight_broadcast"] = {"type": "filesystem"}
    inference["router"] = None
    return inference
