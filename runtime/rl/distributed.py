"""Data parallelism of the trainer: torchrun's ranks, and sums over them.

Every rank holds the whole model. Losses are sums divided by the token count of the global batch, so
the gradient of the step is the sum of the ranks' gradients, whatever the ranks' shares are.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed

_SIOCGIFADDR = 0x8915  # linux/sockios.h


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """This process among the trainer's processes."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        """Tell whether this rank writes what is written once."""
        return self.rank == 0


def ranks_from_environment() -> Ranks:
    """Read what torchrun set; a process started without it is alone."""
    return Ranks(
        rank=int(os.environ.get("RANK", "0")),
        local_rank=int(os.environ.get("LOCAL_RANK", "0")),
        world_size=int(os.environ.get("WORLD_SIZE", "1")),
    )


def join(ranks: Ranks, device: torch.device, *, timeout_s: float) -> None:
    """Join the process group; a rank that is alone needs none."""
    if ranks.world_size == 1:
        return
    if device.type == "cpu":
        # gloo looks up the host's own name otherwise, which containers often cannot resolve
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _interface())
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=timeout_s)
    )


def _interface() -> str:
    """Return the network interface towards the first rank: the loopback unless there are nodes."""
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) == 1:
        return "lo"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing: it asks for the route.
        probe.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name[:15].encode())
            with contextlib.suppress(OSError):  # an interface without an IPv4 address
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
                if socket.inet_ntoa(reply[20:24]) == own:
                    return name
    return "lo"


def leave(ranks: Ranks) -> None:
    """Leave the process group."""
    if ranks.world_size > 1:
        distributed.destroy_process_group()


def barrier(ranks: Ranks) -> None:
    """Wait for every rank."""
    if ranks.world_size > 1:
        distributed.barrier()


def sum_over_ranks(ranks: Ranks, tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor summed over the ranks, in place."""
    if ranks.world_size > 1:
        distributed.all_reduce(tensor)
    return tensor


def sum_gradients(ranks: Ranks, parameters: Iterable[torch.nn.Parameter]) -> None:
    """Replace every gradient by its sum over the ranks, as one flat message."""
    if ranks.world_size == 1:
        return
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:  # a rank without samples still takes part
            parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    distributed.all_reduce(flat)
    offset = 0
    for gradient in gradients:
        gradient.copy_(flat[offset : offset + gradient.numel()].view_as(gradient))
        offset += gradient.numel()
