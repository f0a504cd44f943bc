"""`[inference]`: the engines that generate, and the router in front of them."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from runtime.config.block import Block, Count, EnvVars, Port
from runtime.config.monitors import Log
from runtime.config.slurm import Slurm
from runtime.config.transport import EngineBroadcast
from runtime.config.vllm import Vllm


class Server(Block):
    """The endpoint that clients see."""

    host: str | None = None
    """Address to bind; unset = all."""

    port: Port = 8000
    """Port of the router, or of the engine where there is no router."""

    liveness_timeout_seconds: Annotated[float, Field(gt=0)] = 30.0
    """Seconds that /liveness waits for the engine; a probe's timeout must be at least this."""


class VllmRouter(Block):
    """vLLM's router."""

    type: Literal["vllm-router"] = "vllm-router"
    """Picks this variant; must be written once the table is."""

    policy: str = "consistent_hash"
    """How requests are spread; the default keeps a trajectory on one engine."""


class LlmdRouter(Block):
    """llm-d's scheduler behind Envoy; multi-node only."""

    type: Literal["llm-d"] = "llm-d"
    """Picks this variant."""

    scorers: dict[str, float] = {"prefix-cache-scorer": 3.0, "active-request-scorer": 2.0}
    """Weights by which an engine is chosen."""

    prefill_scorer_overrides: dict[str, float] = {
        "queue-scorer": 2.0,
        "kv-cache-utilization-scorer": 2.0,
    }
    """Other weights for prefill engines."""

    decode_scorer_overrides: dict[str, float] = {}
    """Other weights for decode engines."""

    non_cached_tokens: int = 16
    """Prompts with fewer new tokens skip the prefill engines."""

    decode_sidecar_port: Port = 8300
    """Port of the helper beside each decode engine."""


class CPUTier(Block):
    """Host memory behind the GPU's cache."""

    num_bytes: Annotated[int, Field(gt=0)]
    """Bytes to take."""


class DiskTier(Block):
    """Disk behind host memory."""

    path: Path
    """Directory."""


class CacheOffload(Block):
    """What both kinds of cache offload share."""

    cpu: CPUTier | None = None
    """Host memory; must be written."""

    disk: DiskTier | None = None
    """Disk behind it."""


class NativeOffload(CacheOffload):
    """vLLM's own offload."""

    type: Literal["native"] = "native"
    """Picks this variant."""


class MooncakeOffload(CacheOffload):
    """A Mooncake store on each node; SLURM only upstream, so refused."""

    type: Literal["mooncake"] = "mooncake"
    """Picks this variant."""

    device_name: str = ""
    """RDMA device; empty = found."""


class InferenceDeployment(Block):
    """What all inference deployments share."""

    gpus_per_node: Count = 8
    """GPUs of a node."""


class SingleNodeInference(InferenceDeployment):
    """Each replica on one node."""

    type: Literal["single_node"] = "single_node"
    """Picks this variant; may be left out."""


class MultiNodeInference(InferenceDeployment):
    """Each replica on several nodes."""

    type: Literal["multi_node"] = "multi_node"
    """Picks this variant."""

    num_nodes: Count = 2
    """Nodes of a replica; equals `deployment.num_infer_nodes`."""


class DisaggregatedInference(InferenceDeployment):
    """Prefill and decode on nodes of their own."""

    type: Literal["disaggregated"] = "disaggregated"
    """Picks this variant; turns expert parallelism and KV transfer on."""

    prefill_nodes_per_replica: Count = 1
    """Nodes of a prefill replica."""

    decode_nodes_per_replica: Count = 1
    """Nodes of a decode replica."""

    num_prefill_replicas: Count = 1
    """Prefill replicas."""

    num_decode_replicas: Count = 1
    """Decode replicas."""

    prefill_port: Port = 8100
    """Port of prefill engines."""

    decode_port: Port = 8200
    """Port of decode engines."""

    prefill_env_vars: EnvVars = {}
    """Environment of prefill engines."""

    decode_env_vars: EnvVars = {}
    """Environment of decode engines."""

    prefill_vllm_overrides: dict[str, Any] = {}  # vLLM's own keys
    """vLLM arguments of prefill engines."""

    decode_vllm_overrides: dict[str, Any] = {}  # vLLM's own keys
    """vLLM arguments of decode engines."""

    @property
    def num_prefill_nodes(self) -> int:
        """Return the nodes of all prefill replicas."""
        return self.prefill_nodes_per_replica * self.num_prefill_replicas

    @property
    def num_decode_nodes(self) -> int:
        """Return the nodes of all decode replicas."""
        return self.decode_nodes_per_replica * self.num_decode_replicas

    @property
    def num_nodes(self) -> int:
        """Return the nodes of one whole deployment."""
        return self.num_prefill_nodes + self.num_decode_nodes


class InferenceConfig(Block):
    """`[inference]`; presence starts engines, without it the policy is served elsewhere."""

    default_types = {"deployment": "single_node"}

    server: Server = Server()
    """The endpoint."""

    router: Annotated[VllmRouter | LlmdRouter, Field(discriminator="type")] | None = VllmRouter()
    """The router; "None" = the bare engine, on one node only."""

    backend_port: Port = 8100
    """Port of the engine behind the router; unset = `server.port` + 100."""

    vllm: Vllm = Vllm()
    """The engine's arguments."""

    log: Log = Log()
    """Log of the engines."""

    env_vars: EnvVars = {}
    """Environment of the engines on top of `[env_vars]`."""

    use_deep_gemm: bool = False
    """DeepGEMM's FP8 matrix products."""

    weight_broadcast: EngineBroadcast = EngineBroadcast()
    """How weights arrive; always overwritten from `[weight_broadcast]`."""

    kv_cache_offload: (
        Annotated[NativeOffload | MooncakeOffload, Field(discriminator="type")] | None
    ) = None
    """Cache in host memory and on disk; needs prefix caching."""

    use_pd_kv_transfer: bool = False
    """KV transfer from prefill to decode; derived, not to be set."""

    enable_fp32_lm_head: bool = True
    """LM head in float32, so that its log-probabilities match the trainer's."""

    enable_fp32_router_logits: bool = True
    """Experts' router in float32, for the same reason."""

    deployment: Annotated[
        SingleNodeInference | MultiNodeInference | DisaggregatedInference,
        Field(discriminator="type"),
    ] = SingleNodeInference()
    """How a replica is spread over nodes."""

    slurm: Slurm | None = None
    """Filled from `[slurm]`; ignored."""

    output_dir: Path = Path("outputs")
    """Ignored: paddock sets the run directory."""

    dry_run: bool = False
    """Ignored: use `paddock plan`."""
