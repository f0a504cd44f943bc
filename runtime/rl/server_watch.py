"""Watching env servers: a dead server never answers, so the orchestrator has to find out by itself.

`EnvClient.run` has no timeout and never returns once its server is gone.
"""

import asyncio
from urllib.parse import urlsplit

from runtime.errors import EngineError
from runtime.rl.sources import Source

_PING_S = 1.0
_PING_TIMEOUT_S = 2.0
_HUNG_AFTER_S = 120.0
"""A server that accepts connections may be busy for long: loading a tokenizer takes seconds."""


async def wait_for_server(source: Source, timeout_s: float) -> None:
    """Wait until a source's server is healthy; raises EngineError after the timeout."""
    try:
        await source.client.wait_for_server_startup(timeout=timeout_s, interval=0.2)
    except TimeoutError as error:
        raise EngineError(f"env server of {source.name} did not start: {error}") from error


async def watch_server(source: Source) -> None:
    """Raise EngineError when a source's server is gone or hangs; never returns."""
    silent_since: float | None = None
    clock = asyncio.get_running_loop().time
    while True:
        started = clock()
        if await source.client.health(timeout=_PING_TIMEOUT_S):
            silent_since = None
        elif not await _accepts(source.client.address):
            raise EngineError(
                f"env server of {source.name} at {source.client.address} is gone: see its log"
            )
        else:
            silent_since = silent_since or started
            if clock() - silent_since > _HUNG_AFTER_S:
                raise EngineError(
                    f"env server of {source.name} at {source.client.address} has not answered for "
                    f"{_HUNG_AFTER_S:.0f} s"
                )
        await asyncio.sleep(_PING_S)


async def _accepts(address: str) -> bool:
    """Tell whether something listens at the address; a dead process' port refuses at once."""
    parts = urlsplit(address)
    try:
        async with asyncio.timeout(_PING_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
