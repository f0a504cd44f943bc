"""Port numbers of a run's pods: prime-rl's own, or those that the config moves. Pure.

On the local target real ports are claimed from the machine (`runtime.ports`); pods have a network
namespace each, so the numbers only have to differ within a pod.
"""

from dataclasses import dataclass

from runtime.config import RLConfig
from runtime.config.inference import DisaggregatedInference
from runtime.config.transport import SharedNCCLBroadcast, ZMQTransport

MAX_PORT = 65_535
_METRICS_OFFSET = 21_000  # of the router's Prometheus port, as prime-rl counts it


@dataclass(frozen=True, kw_only=True, slots=True)
class PodPorts:
    """Where each component listens; rank k of an engine pod adds k."""

    router: int = 8000
    router_metrics: int = 29_000
    engine: int = 8100
    prefill: int = 8100
    decode: int = 8200
    side_channel: int = 5600
    data_parallel_rpc: int = 13_345
    rendezvous: int = 29_500
    broadcast: int = 29_501
    rollouts: int = 5555
    env_servers: int = 5000
    trainer_metrics: int | None = None


def pod_ports(config: RLConfig) -> PodPorts:
    """Return the port numbers of a resolved config."""
    found: dict[str, int] = {"env_servers": config.orchestrator.env_server_base_port}
    inference = config.inference
    if inference is not None:
        port = inference.server.port
        found["router"] = port
        found["router_metrics"] = port + (
            _METRICS_OFFSET if port + _METRICS_OFFSET <= MAX_PORT else -_METRICS_OFFSET
        )
        found["engine"] = inference.backend_port if inference.router is not None else port
        found["data_parallel_rpc"] = inference.vllm.data_parallel_rpc_port
        if isinstance(inference.deployment, DisaggregatedInference):
            found["prefill"] = inference.deployment.prefill_port
            found["decode"] = inference.deployment.decode_port
    if isinstance(config.weight_broadcast, SharedNCCLBroadcast):
        found["broadcast"] = config.weight_broadcast.port
    if isinstance(config.rollout_transport, ZMQTransport):
        found["rollouts"] = config.rollout_transport.port
    metrics = config.trainer.metrics_server
    return PodPorts(**found, trainer_metrics=metrics.port if metrics is not None else None)
