"""Ports of this machine: a block that is free, and holding its ports until they are needed.

A port counts as used when a bind without SO_REUSEADDR fails on it, so a socket in TIME_WAIT and a
listener of IPv6 only count too. Called under the lock of `runtime.claims`, and by the supervisor.
"""

import contextlib
import errno
import socket
from collections.abc import Iterable
from pathlib import Path

from runtime.errors import Problem, RefusedError

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST = 10_000  # below are registered services
_LAST = 65_535


def port_range(ephemeral: Path = _EPHEMERAL) -> range:
    """Return the ports that blocks are taken from: outside of what the kernel gives to clients."""
    try:
        low, high = (int(word) for word in ephemeral.read_text().split())
    except (OSError, ValueError):
        low, high = 32_768, 60_999  # the kernel's default
    if low - _FIRST >= _LAST - high:
        return range(_FIRST, low)
    return range(high + 1, _LAST + 1)


def find_block(num_ports: int, *, taken: Iterable[range], start: int) -> int:
    """Return the first port of a free block; the search begins at `start` and wraps around.

    Raises RefusedError when no block is free.
    """
    ports = port_range()
    used = {port for block in taken for port in block}
    offset = start % max(1, len(ports))
    port = ports[0] + offset
    last = ports[-1] + 1 - num_ports
    for _ in range(len(ports)):
        if port > last:
            port = ports[0]
        block = range(port, port + num_ports)
        if used.isdisjoint(block) and all(is_free(number) for number in block):
            return port
        port += 1
    raise RefusedError(
        [
            Problem(
                message=f"no {num_ports} free ports in a row in {ports[0]}-{ports[-1]}",
                fix="end what holds them: ss -ltn",
                code="ports",
            )
        ]
    )


def is_free(port: int) -> bool:
    """Tell whether nothing uses the port on any address of either family."""
    try:
        held = hold_port(port)
    except OSError:
        return False
    release_port(held)
    return True


def hold_port(port: int) -> tuple[socket.socket, ...]:
    """Bind the port on all addresses without listening; raises OSError when it is in use."""
    held = []
    try:
        held.append(_bound(socket.AF_INET, "0.0.0.0", port))  # noqa: S104  # never listens
        with contextlib.suppress(_NoIPv6Error):
            held.append(_bound(socket.AF_INET6, "::", port))
    except OSError:
        release_port(held)
        raise
    return tuple(held)


def release_port(held: Iterable[socket.socket]) -> None:
    """Let go of a held port."""
    for bound in held:
        bound.close()


class _NoIPv6Error(Exception):
    """This machine has no IPv6."""


def _bound(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    try:
        bound = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT and family == socket.AF_INET6:
            raise _NoIPv6Error from None
        raise
    try:
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((address, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRNOTAVAIL and family == socket.AF_INET6:
            raise _NoIPv6Error from None
        raise
    return bound
