"""`[model]`, `[tokenizer]` and `[trainer.model]`: the weights, and how the trainer holds them."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from runtime.config.block import Block, Count, NonNegative

QUANTIZATION_IGNORES = [
    "lm_head",
    "router",
    r"mlp\.gate\.",
    "shared_expert_gate",
    "eh_proj",
    "weights_proj",
    "in_proj_a",
    "in_proj_b",
]
LORA_TARGETS = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "experts",
    "fc1_latent_proj",
    "fc2_latent_proj",
]
Dtype = Literal["bfloat16", "float32"]


class VLM(Block):
    """Where the vision and the language part of a vision-language model are found."""

    vision_encoder_attr: str
    """Attribute path of the vision encoder."""

    language_model_attr: str
    """Attribute path of the language model."""

    freeze_vision_encoder: bool = True
    """Train the language part only; false excludes LoRA."""


class SharedModel(Block):
    """`[model]`: one model for trainer, orchestrator and inference."""

    name: str = "Qwen/Qwen3-0.6B"
    """Hugging Face id, or a path such as /volume/my-model."""

    vlm: VLM | None = None
    """Presence makes it vision-language training."""


class Tokenizer(Block):
    """`[tokenizer]`, shared and per component."""

    name: str | None = None
    """Id or path; unset = the model's."""

    trust_remote_code: bool | None = None
    """Run code that the tokenizer's repository ships; unset = as for the model."""

    chat_template: str | None = None
    """Jinja text or a file; goes to inference too and must agree everywhere."""


class Compile(Block):
    """torch.compile of each layer."""

    fullgraph: bool = False
    """Fail on a graph break instead of falling back."""


class ActivationCheckpoint(Block):
    """Recompute activations in the backward pass instead of keeping them."""

    mode: Literal["full", "selective"] = "full"
    """Whole layers, or only the parts that `targets` names (custom implementation only)."""

    freq: Count = 1
    """Every how many layers."""

    targets: list[str] = ["norm"]
    """Parts to recompute in selective mode; at least one."""


class ActivationOffload(Block):
    """Keep checkpointed activations in host memory."""

    pin_memory: bool = True
    """Pinned host memory, for faster copies."""

    max_inflight_activations: Count = 5
    """Activations on their way at once; more overlap for more GPU memory."""


class FullOffload(Block):
    """Optimizer step on the CPU while the backward pass still runs."""

    cpu_optimizer_backend: Literal["native", "torch"] = "native"
    """Which CPU optimizer."""

    numa_bind: bool = True
    """Bind each rank's memory to its GPU's NUMA node."""


def _switch_as_table(value: object) -> object:
    if isinstance(value, bool):
        return {} if value else None
    return value


class FP8(Block):
    """FP8 training."""

    type: Literal["fp8"] = "fp8"
    """Picks this variant."""

    enable_grouped_gemm: bool = True
    """FP8 in the experts' grouped matrix products too."""

    ignore_patterns: list[str] = QUANTIZATION_IGNORES
    """Regular expressions of module names that stay in the training dtype."""


class MXFP8(Block):
    """MXFP8 training (Blackwell)."""

    type: Literal["mxfp8"] = "mxfp8"
    """Picks this variant; only with `ep_comm_backend = "torch"`."""

    recipe: Literal["mxfp8_rceil", "mxfp8_rceil_wgrad_with_hp"] = "mxfp8_rceil"
    """Rounding recipe; the second keeps weight gradients in high precision."""

    enable_grouped_gemm: bool = True
    """MXFP8 in the experts' grouped matrix products too."""

    enable_a2a: bool = True
    """MXFP8 in the experts' all-to-all."""

    ignore_patterns: list[str] = QUANTIZATION_IGNORES
    """Regular expressions of module names that stay in the training dtype."""


class IndexCache(Block):
    """Reuse of sparse attention's token index between layers."""

    topk_freq: Count = 1
    """Layers that share one index."""

    topk_pattern: str | None = None
    """Which layers compute it, as a pattern; unset = by `topk_freq`."""


class LoRA(Block):
    """`[trainer.model.lora]`: train adapters instead of all weights."""

    rank: Annotated[int, Field(ge=1, le=512)] = 16
    """Rank of the adapters; 512 is the most that vLLM serves."""

    alpha: NonNegative = 32.0
    """Scale of the adapters, relative to the rank."""

    dropout: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Dropout on the adapters' input."""

    target_modules: list[str] = LORA_TARGETS
    """Module names that get an adapter."""

    modules_to_save: list[str] = []
    """Modules that are trained in full besides."""


class DebugModel(Block):
    """Short cuts for tests of the trainer."""

    num_layers: Count | None = None
    """Keep only so many layers."""

    random_init: bool = False
    """Random weights instead of loading any."""

    force_balanced_routing: bool = False
    """Send tokens to experts round robin."""


class TrainerModel(Block):
    """`[trainer.model]`."""

    name: str = "Qwen/Qwen3-0.6B"
    """Id or path that the trainer loads; normally filled from `[model]`."""

    trust_remote_code: bool = False
    """Run code that the model's repository ships; only with `impl` hf or auto."""

    vlm: VLM | None = None
    """Vision-language training; needs `impl = "custom"` and bfloat16 throughout."""

    conversion_dir: Path | None = None
    """Where converted weights are cached; unset = next to the downloaded ones."""

    seq_len: Count = 2048
    """Tokens of a packed sequence; at least `orchestrator.seq_len`, divisible by 2 x `cp`."""

    attn: Literal["flash_attention_2", "flash_attention_3", "flash_attention_4", "auto"] = "auto"
    """Attention kernel; auto takes what the GPU generation is best at."""

    compile: Compile | None = Compile()
    """torch.compile; "None" turns it off."""

    ac: ActivationCheckpoint | None = ActivationCheckpoint()
    """Activation checkpointing, on by default; "None" turns it off."""

    ac_offloading: ActivationOffload | None = ActivationOffload()
    """Activations in host memory, on by default: count the host's memory. Implies `ac`."""

    fsdp_cpu_offload: bool = False
    """Parameters, gradients and optimizer in host memory; excludes the two optimizer offloads."""

    optim_cpu_offload: bool = True
    """Optimizer state in host memory between steps; on by default."""

    full_offload: Annotated[FullOffload | None, BeforeValidator(_switch_as_table)] = None
    """CPU optimizer inside the backward pass; `true`, `false` or a table. Needs
    `optim_cpu_offload = false`, and adamw or sign_sgd; turns clipping off."""

    reshard_after_forward: bool = True
    """Free gathered weights between forward and backward: less memory, more traffic."""

    dp_replicate: Count = 1
    """Copies of the sharded weights; set from `deployment.nodes_per_fsdp_group`."""

    ep: Count | Literal["auto"] = "auto"
    """GPUs that share the experts; auto = the most that fit, up to 8, and 1 for dense models."""

    ep_comm_backend: Literal["torch", "deepep"] = "torch"
    """All-to-all of the experts; deepep needs `ep` above 1 and turns clipping off."""

    deepep_num_sms: Count = 20
    """Streaming multiprocessors that DeepEP may take."""

    deepep_token_chunk_size: Count | None = None
    """Tokens a DeepEP call; unset = all."""

    cp: Count = 1
    """GPUs that share one sequence (context parallel); divides the trainer's GPUs."""

    cp_style: Literal["ring", "ulysses"] = "ring"
    """How they share it; vision-language models need ulysses."""

    impl: Literal["hf", "custom", "auto"] = "auto"
    """Model code: transformers', prime-rl's own, or the own one where the architecture has it."""

    optimization_dtype: Dtype = "float32"
    """Dtype of the weights that the optimizer updates."""

    reduce_dtype: Dtype = "float32"
    """Dtype of the gradient reduction."""

    moe_router_dtype: Dtype = "float32"
    """Dtype of the experts' router."""

    moe_use_grouped_mm: bool = True
    """One grouped matrix product for all experts instead of a loop."""

    moe_fused_kernel: bool = False
    """Fused expert kernel."""

    quantization: Annotated[FP8 | MXFP8, Field(discriminator="type")] | None = None
    """FP8 or MXFP8 training; not with `impl = "hf"`."""

    index_cache: IndexCache | None = None
    """Shared sparse-attention index."""

    freeze_moe_router: bool = False
    """Leave the router's weights as they are."""

    lora: LoRA | None = None
    """Presence trains adapters; forces the filesystem broadcast."""

    debug: DebugModel = DebugModel()
    """Short cuts for tests."""

    fused_lm_head_token_chunk_size: Count | Literal["disabled"] = 8192
    """Tokens a slice of the fused LM head and loss; "disabled" computes all logits at once."""
