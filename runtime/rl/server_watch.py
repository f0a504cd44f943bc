"""Watching env servers: a dead server never answers, so the orchestrator has to find out by itself.

`EnvClient.run` has no timeout and never returns once its server is gone.
"""

import asyncio
from urllib.parse import urlsplit

from runtime.errors import EngineError
from runtime.rl.sources import Source

_PING_S = 1.0
_CONNECT_TIMEOUT_S = 5.0
_HUNG_AFTER_S = 300.0
"""A living server may be silent for long: loading a tokenizer on a busy machine takes a minute."""


async def wait_for_server(source: Source, timeout_s: float) -> None:
    """Wait until a source's server is healthy; raises EngineError after the timeout."""
    try:
        await source.client.wait_for_server_startup(timeout=timeout_s, interval=0.2)
    except TimeoutError as error:
        raise EngineError(f"env server of {source.name} did not start: {error}") from error


async def watch_server(source: Source) -> None:
    """Raise EngineError when a source's server is gone or hangs; never returns."""
    health = asyncio.ensure_future(_watch_health(source))
    try:
        while not health.done():
            await look_at_server(source)
            await asyncio.wait({health}, timeout=_PING_S)
        health.result()
    finally:
        health.cancel()


async def look_at_server(source: Source) -> None:
    """Raise EngineError when a source's server is gone now."""
    if not await _accepts(source.client.address):
        raise EngineError(f"{_name(source)} is gone: see its log")


async def _watch_health(source: Source) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        started = clock()
        if await source.client.health(timeout=_HUNG_AFTER_S):
            await asyncio.sleep(_PING_S)
        elif source.heard_at < started:
            raise EngineError(f"{_name(source)} has not answered for {_HUNG_AFTER_S:.0f} s")


async def _accepts(address: str) -> bool:
    """Tell whether something listens at the address; a dead process' port refuses at once."""
    parts = urlsplit(address)
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return True  # the machine is busy; nothing says that the server is gone
    writer.close()
    return True


def _name(source: Source) -> str:
    return f"env server of {source.name} at {source.client.address}"
