"""What a config asks for that the embedded engine does not do: accepted, with one notice each.

Pure; reads the dumps that the components read, and imports neither torch nor the config models.
Keys whose default is already something that this engine lacks (activation offload, torch.compile)
are silent: they change speed and memory on GPUs, not what is learned.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Dump = Mapping[str, Any]  # Any: a dumped config

_OFF = (None, False, 1, "auto")

_TRAINER = {
    "model.attn": "attention is PyTorch's own",
    "model.ep": "there is no expert parallelism",
    "model.cp": "there is no context parallelism",
    "model.dp_replicate": "every rank holds the whole model",
    "model.lora": "all weights are trained, not adapters",
    "model.quantization": "training is in float32",
    "model.fsdp_cpu_offload": "nothing is offloaded",
    "model.full_offload": "nothing is offloaded",
    "model.vlm": "images are not supported",
    "model.freeze_moe_router": "every weight is trained",
    "model.debug.num_layers": "the whole model is loaded",
    "model.debug.random_init": "the weights are loaded",
    "data.fake": "batches come from the orchestrator",
    "ckpt.output_dir": "checkpoints stay in the run directory",
    "ckpt.skip_progress": "a resumed run goes on at its step",
    "ckpt.skip_scheduler": "the schedule follows the step",
    "ckpt.skip_dataloader": "there is no data loader",
    "enable_router_replay": "there is no router replay",
    "enable_token_export": "tokens are not exported",
    "metrics_server": "metrics are in metrics.jsonl only",
    "heartbeat": "there is no heartbeat call",
    "memory_profiler_path": "memory is not profiled",
    "trace_path": "steps are not profiled",
    "monitors.wandb": "metrics are in metrics.jsonl only",
}
_ORCHESTRATOR = {
    "algo.length_penalty": "rewards are taken as they are",
    "tasks_per_minute": "tasks are not rate limited",
    "heartbeat": "there is no heartbeat call",
    "monitors.wandb": "metrics are in metrics.jsonl only",
    "monitors.prime": "metrics are in metrics.jsonl only",
    "model.lora": "all weights are trained, not adapters",
    "model.vlm": "images are not supported",
}
_INFERENCE = {
    "vllm.tensor_parallel_size": "an engine is one process on one device",
    "vllm.quantization": "weights are served as they are",
    "vllm.enable_lora": "all weights are served, not adapters",
    "vllm.enable_expert_parallel": "there is no expert parallelism",
    "vllm.chat_template": "the tokenizer's own template is used",
    "vllm.rope_scaling": "the model's own positions are used",
    "vllm.enable_return_routed_experts": "there is no router replay",
    "kv_cache_offload": "nothing is offloaded",
    "use_pd_kv_transfer": "prefill and decode are one process",
}
_CHOICES = (
    ("trainer", "loss.type", ("default",), "the default loss is used"),
    ("trainer", "optim.type", ("adamw", "sgd"), "adamw is used"),
    ("orchestrator", "algo.type", ("grpo",), "grpo is used"),
)


def engine_notices(*, trainer: Dump, orchestrator: Dump, inference: Dump | None) -> list[str]:
    """Return one sentence for each key that is accepted without effect."""
    blocks = {"trainer": trainer, "orchestrator": orchestrator, "inference": inference or {}}
    found: list[str] = []
    told: set[str] = set()  # a shared key stands in the trainer's and the orchestrator's dump
    for block, table in (
        ("trainer", _TRAINER),
        ("orchestrator", _ORCHESTRATOR),
        ("inference", _INFERENCE),
    ):
        for path, meaning in table.items():
            value = _get(blocks[block], path)
            if path not in told and not any(value is off or value == off for off in _OFF):
                told.add(path)
                found.append(_notice(f"{block}.{path}", value, meaning))
    for block, path, known, meaning in _CHOICES:
        value = _get(blocks[block], path)
        if value is not None and value not in known:
            found.append(_notice(f"{block}.{path}", value, meaning))
    return [*found, *_source_notices(orchestrator)]


def _source_notices(orchestrator: Dump) -> Iterator[str]:
    for split in ("train", "eval"):
        for source in (orchestrator.get(split) or {}).get("source") or []:
            where = f"orchestrator.{split}.source[{source['name']}]"
            if source.get("curriculum") is not None:
                yield f"{where}.curriculum: the embedded engine draws tasks evenly"
            own = _get(source, "algo.type")
            if own not in (None, "grpo", _get(orchestrator, "algo.type")):
                yield _notice(f"{where}.algo.type", own, "grpo is used")


def _notice(path: str, value: object, meaning: str) -> str:
    shown = "" if isinstance(value, Mapping) else f" {value}"
    return f"{path}{shown}: not in the embedded engine, {meaning}"


def _get(block: Dump, path: str) -> Any:  # noqa: ANN401 - whatever the config holds there
    value: Any = block
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
