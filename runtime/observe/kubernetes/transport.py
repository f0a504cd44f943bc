"""Which network NCCL chose, read from the log of a trainer or an inference engine. Pure.

NCCL says it once a process with NCCL_DEBUG=INFO. On a plan with RDMA, sockets are a run that works
and is many times slower than it should be: a warning, never a failure.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

TRANSPORT_DEGRADED = "TRANSPORT_DEGRADED"
"""Word that the warning begins with."""

_CHOSEN = re.compile(
    r"NCCL INFO (?:\[\w+ \d+\] )?(?:Using|Assigned NET plugin) (?:network )?(\S.*)"
)
_CHANNEL = re.compile(r"NCCL INFO Channel .*\bvia NET/([\w. ]+?)(?:/|\s*$|\()")
_PROVIDER = re.compile(r"NET/OFI (?:Selected [Pp]rovider is|Using provider:?) ([\w;-]+)")
_TO_COMM = " to comm"
_SOCKETS = {"socket"}
_SOCKET_PROVIDERS = {"tcp", "sockets", "udp"}
_RDMA_PROVIDERS = ("efa", "verbs", "cxi", "psm", "opx")
_WORDS = re.compile(r"^(IB|IBext\w*|Socket|.*Libfabric.*|OFI|SPCX|UCX|FasTrak|gIB|RDMA\w*)$", re.I)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transport:
    """What NCCL uses between nodes: `network` in its own word, and libfabric's provider."""

    network: str
    provider: str = ""

    @property
    def is_degraded(self) -> bool:
        """Tell whether this is plain TCP, whatever it is called."""
        if self.network.lower() in _SOCKETS:
            return True
        return self.provider.lower().split(";")[0] in _SOCKET_PROVIDERS


def transport_of(lines: Iterable[str]) -> Transport | None:
    """Return the transport that a log tells of, None where NCCL has not said any.

    Sockets that any process of the log uses win: one slow rank slows them all.
    """
    networks: list[str] = []
    provider = ""
    for line in lines:
        if "NCCL" not in line and "NET/OFI" not in line:
            continue
        match = _PROVIDER.search(line)
        if match is not None:
            is_slow = match[1].lower().split(";")[0] in _SOCKET_PROVIDERS
            provider = match[1] if is_slow or not provider else provider
        network = _network(line)
        if network:
            networks.append(network)
    if not networks:
        is_known = provider.lower().startswith(_RDMA_PROVIDERS)
        return Transport(network="Libfabric", provider=provider) if is_known else None
    slow = next((one for one in networks if one.lower() in _SOCKETS), None)
    return Transport(network=slow or networks[-1], provider=provider)


def degraded_warning(component: str, transport: Transport, *, resource: str) -> str:
    """Return the warning for a run whose pods have RDMA devices that NCCL does not use."""
    what = transport.network
    if transport.provider:
        what += f" (provider {transport.provider})"
    return (
        f"{TRANSPORT_DEGRADED}: NCCL of {component} uses {what}, although its pod has {resource}: "
        "weights and gradients go over TCP; the image may lack the transport's plugin"
    )


def _network(line: str) -> str:
    match = _CHOSEN.search(line) or _CHANNEL.search(line)
    if match is None:
        return ""
    word = match[1].removesuffix(_TO_COMM).strip()
    return word if _WORDS.match(word) else ""
