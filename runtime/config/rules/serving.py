"""Rules about inference: router, caches, what goes along with weight transfer."""

from collections.abc import Iterator

from runtime.config.rl import RLConfig
from runtime.config.rules.rule import broken, rule
from runtime.config.transport import SharedNCCLBroadcast
from runtime.errors import Problem


@rule("inference.router", "inference.deployment", "deployment", "trainer", "inference.vllm")
def router_fits_the_deployment(config: RLConfig) -> Iterator[Problem]:
    """Several nodes need a router; llm-d needs several nodes."""
    inference = config.inference
    if inference is None:
        return
    if config.deployment.type == "multi_node" and inference.router is None:
        yield broken(
            "inference.router",
            "a multi-node deployment needs a router in front of its engines",
            fix='remove router = "None"',
        )
    if inference.router is None or inference.router.type != "llm-d":
        return
    if inference.deployment.type == "single_node":
        yield broken(
            "inference.router.type",
            "llm-d needs an [inference.deployment] of type multi_node or disaggregated",
            fix="leave [inference.router] out",
        )
    if inference.vllm.enable_return_routed_experts or config.trainer.enable_router_replay:
        yield broken(
            "inference.router.type",
            "llm-d does not pass routed experts on (enable_return_routed_experts, "
            "trainer.enable_router_replay)",
            fix='use type = "vllm-router"',
        )


@rule("inference.kv_cache_offload", "inference.vllm", "trainer.enable_router_replay")
def cache_offload_works(config: RLConfig) -> Iterator[Problem]:
    """Cache offload has a tier in memory and a prefix cache to offload."""
    inference = config.inference
    if inference is None or inference.kv_cache_offload is None:
        return
    offload, loc = inference.kv_cache_offload, "inference.kv_cache_offload"
    if offload.cpu is None:
        yield broken(loc, "cache offload needs a cpu tier", fix=f"write [{loc}.cpu] with num_bytes")
    if offload.type == "mooncake":
        yield broken(
            f"{loc}.type",
            "mooncake needs a store on each node, which paddock does not start",
            fix='use type = "native"',
        )
    if inference.vllm.enable_prefix_caching is False:
        yield broken(
            "inference.vllm.enable_prefix_caching",
            "cache offload needs prefix caching, which is set to false",
        )
    if config.trainer.enable_router_replay:
        yield broken(
            loc, "cache offload loses the experts that trainer.enable_router_replay replays"
        )


@rule("weight_broadcast", "inference", "trainer.model")
def quantised_transfer_works(config: RLConfig) -> Iterator[Problem]:
    """Quantised transfer, and the balancing that depends on it."""
    broadcast, inference = config.weight_broadcast, config.inference
    quantised = isinstance(broadcast, SharedNCCLBroadcast) and broadcast.quantize_in_weight_transfer
    loc = "weight_broadcast.quantize_in_weight_transfer"
    if quantised and inference is None:
        yield broken(loc, "quantised transfer needs an [inference] table")
    if quantised and config.trainer.model.impl != "custom":
        yield broken(
            loc,
            'quantised transfer needs trainer.model.impl = "custom", not '
            f'"{config.trainer.model.impl}"',
        )
    if inference is not None and inference.vllm.enable_eplb and not quantised:
        yield broken(
            "inference.vllm.enable_eplb",
            'enable_eplb needs weight_broadcast.type = "nccl" with '
            "quantize_in_weight_transfer = true",
        )


@rule("monitors.wandb")
def shared_wandb_is_online(config: RLConfig) -> Iterator[Problem]:
    """Two processes write one W&B run, which needs the server."""
    wandb = config.monitors.wandb
    if wandb is not None and wandb.offline:
        yield broken(
            "monitors.wandb.offline",
            "offline = true does not work: trainer and orchestrator write one W&B run",
            fix="remove it, or remove the table: metrics.jsonl is written anyway",
        )


RULES = (
    router_fits_the_deployment,
    cache_offload_works,
    quantised_transfer_works,
    shared_wandb_is_online,
)
