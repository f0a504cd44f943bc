"""`[weight_broadcast]` and `[rollout_transport]`: how weights and rollouts travel.

The shared tables are what a user writes; the ones of trainer and orchestrator carry the number of
receivers besides and are always overwritten from the shared one.
"""

from typing import Annotated, Literal

from pydantic import Field

from runtime.config.block import Block, Count, Port


class FilesystemBroadcast(Block):
    """Weights as files in the run directory."""

    type: Literal["filesystem"] = "filesystem"
    """Picks this variant; the only one that LoRA works with."""


class SharedNCCLBroadcast(Block):
    """Weights sent from GPU to GPU by an NCCL group of trainer and engines."""

    type: Literal["nccl"] = "nccl"
    """Picks this variant, the default with `[inference]` and without LoRA."""

    host: str = "localhost"
    """Where the group's first rank listens; set by paddock when there are several hosts."""

    port: Port = 29501
    """Port of the rendezvous."""

    timeout: Count = 1200
    """Seconds to wait for all members."""

    quantize_in_weight_transfer: bool = False
    """Send FP8 instead of the training dtype; needs `trainer.model.impl = "custom"`."""


class SharedNIXLBroadcast(Block):
    """Weights sent over NIXL (UCX)."""

    type: Literal["nixl"] = "nixl"
    """Picks this variant."""

    host: str = "localhost"
    """Where the metadata server listens."""

    port: Port = 8001
    """Port of the metadata server."""

    timeout: Count = 1200
    """Seconds to wait for all members."""

    session_id: str = "default"
    """Separates transfers of runs that share a metadata server."""


class NCCLBroadcast(SharedNCCLBroadcast):
    """The NCCL broadcast as trainer and orchestrator read it."""

    inference_world_size: Count = 1
    """Inference GPUs that receive weights. Derived; upstream gets it wrong on a single node."""


class NIXLBroadcast(SharedNIXLBroadcast):
    """The NIXL broadcast as trainer and orchestrator read it."""

    inference_world_size: Count = 1
    """Inference GPUs that receive weights. Derived."""


class EngineBroadcast(Block):
    """All that an inference engine must know of the broadcast."""

    type: Literal["nccl", "filesystem", "nixl"] = "filesystem"
    """Which worker extension the engine loads; overwritten from the shared table."""


class FilesystemTransport(Block):
    """Rollout batches as files in the run directory."""

    type: Literal["filesystem"] = "filesystem"
    """Picks this variant; needs nothing but the shared volume."""


class ZMQTransport(Block):
    """Rollout batches over a socket that the orchestrator binds."""

    type: Literal["zmq"] = "zmq"
    """Picks this variant, the default."""

    host: str = "localhost"
    """Address of the orchestrator; set by paddock when the trainer is on another host."""

    port: Annotated[int, Field(ge=1, le=65534)] = 5555
    """Port of the batches; the next one is taken too, for the barrier at start."""

    hwm: Count = 10
    """Batches that may wait in the socket (ZMQ's high-water mark)."""


SharedWeightBroadcast = Annotated[
    FilesystemBroadcast | SharedNCCLBroadcast | SharedNIXLBroadcast, Field(discriminator="type")
]
WeightBroadcast = Annotated[
    FilesystemBroadcast | NCCLBroadcast | NIXLBroadcast, Field(discriminator="type")
]
RolloutTransport = Annotated[FilesystemTransport | ZMQTransport, Field(discriminator="type")]
