"""`[inference.vllm]`: arguments of vLLM by vLLM's names; those not declared here pass through."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from runtime.config.block import Count, OpenBlock, Port

MAX_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # vLLM's, without 1


def _read_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


class Vllm(OpenBlock):
    """Arguments of the inference engine."""

    model: str = "Qwen/Qwen3-0.6B"
    """Id or path to serve; equals `orchestrator.model.name`."""

    dtype: Literal["auto", "float16", "bfloat16", "float32"] = "auto"
    """Dtype of the weights; auto = the checkpoint's."""

    max_model_len: Count | None = None
    """Longest context in tokens; unset = the model's. Not derived from `seq_len`."""

    enforce_eager: bool = False
    """No CUDA graphs: slower, less memory."""

    trust_remote_code: bool = False
    """Run code that the model's repository ships."""

    chat_template: str | None = None
    """Chat template; must agree with the tokenizer's."""

    tool_call_parser: str | None = "auto"
    """Parser of tool calls; auto = by model name, null where none is known."""

    reasoning_parser: str | None = "auto"
    """Parser of thoughts; auto = by model name, null where none is known."""

    rope_scaling: dict[str, Any] | str | None = None  # vLLM's own keys
    """Longer contexts than the model was trained on."""

    tensor_parallel_size: Count = 1
    """GPUs that share one copy of the weights; divides the node's GPUs."""

    data_parallel_size: Count = 1
    """Copies of the weights; derived from the deployment, except with expert parallelism."""

    data_parallel_size_local: Count | None = None
    """Copies a node; derived on several nodes."""

    data_parallel_rpc_port: Port = 13345
    """Port on which the copies find each other."""

    api_server_count: Annotated[int, Field(ge=0)] = 1
    """HTTP processes; raised to the number of copies, 1 with LoRA."""

    seed: int = 0
    """Seed of the sampler."""

    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Share of a GPU's memory to take, in (0, 1]; upstream does not check it."""

    enable_prefix_caching: bool | None = None
    """Reuse of common prefixes; unset = vLLM's default."""

    quantization: str | None = None
    """Quantisation method; unset = the checkpoint's."""

    enable_lora: bool = False
    """Serve adapters; turned on by `[trainer.model.lora]`."""

    max_loras: Count = 8
    """Adapters in one batch."""

    max_cpu_loras: Count = 100
    """Adapters kept in host memory."""

    max_lora_rank: Annotated[int, Field(ge=1, le=512)] | None = None
    """Highest rank; derived, rounded up to a rank that vLLM knows."""

    lora_target_modules: list[str] | None = None
    """Modules with adapters; unset = the adapter's."""

    enable_expert_parallel: bool = False
    """Spread experts over all GPUs of a replica; then `data_parallel_size` must be written."""

    all2all_backend: Literal[
        "allgather_reducescatter",
        "deepep_high_throughput",
        "deepep_low_latency",
        "flashinfer_nvlink_one_sided",
        "flashinfer_nvlink_two_sided",
    ] = "allgather_reducescatter"
    """How experts exchange tokens."""

    enable_eplb: bool = False
    """Balance experts at run time; needs NCCL broadcast with quantised transfer."""

    enable_dbo: bool = False
    """Overlap two half batches."""

    enable_return_routed_experts: bool = False
    """Return each token's experts; turned on by `trainer.enable_router_replay`."""

    @model_validator(mode="before")
    @classmethod
    def read_passed_through(cls, data: object) -> object:
        """Spell undeclared keys with underscores and read JSON in their texts, as prime-rl does."""
        if not isinstance(data, dict):
            return data
        declared = {key: value for key, value in data.items() if key in cls.model_fields}
        others = {
            key.replace("-", "_"): _read_json(value)
            for key, value in data.items()
            if key not in declared
        }
        return {**declared, **others}
