"""The policy as the orchestrator sees it: the version that is served, and how the next arrives.

Polls the broadcasts folder; a whole new version is loaded by every engine (pause, update, resume),
then counts as the current one.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import httpx

from runtime.errors import EngineError
from runtime.rl.steps import newest_broadcast, step_folder

logger = logging.getLogger(__name__)

_POLL_S = 0.05
_HEALTH_POLL_S = 0.2
_WATCH_S = 2.0
_UPDATE_TIMEOUT_S = 720.0  # prime-rl's read timeout of /update_weights


class Policy:
    """The current version, and the engines that serve it."""

    def __init__(
        self, engine_urls: list[str], broadcasts: Path, *, router_url: str | None = None
    ) -> None:
        """Name the engines in rank order, by the base URL of their API.

        Episodes go to the engines in turn, or to a router where one stands before them.
        """
        self.version = -1
        self.api_urls = engine_urls if router_url is None else [router_url]
        self.on_update: list[Callable[[], None]] = []
        self._admin_urls = [_root(url) for url in engine_urls]
        self._server_urls = list(dict.fromkeys(map(_root, [*engine_urls, *self.api_urls])))
        self._broadcasts = broadcasts
        self._changed = asyncio.Condition()
        self._http = httpx.AsyncClient(timeout=_UPDATE_TIMEOUT_S, trust_env=False)

    async def wait_for_engines(self, timeout_s: float) -> None:
        """Wait until every engine is healthy; raises EngineError after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(self._until_healthy(url) for url in self._server_urls))
        except TimeoutError:
            urls = ", ".join(self._server_urls)
            raise EngineError(
                f"inference at {urls} is not healthy after {timeout_s:.0f} s"
            ) from None

    async def wait_for(self, version: int) -> None:
        """Wait until a version, or a later one, is served."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.version >= version)

    async def follow(self) -> None:
        """Load each new version; never returns."""
        while True:
            newest = newest_broadcast(self._broadcasts)
            if newest is not None and newest > self.version:
                await self._load(newest)
            await asyncio.sleep(_POLL_S)

    async def watch(self) -> None:
        """Raise EngineError when an engine is gone; never returns."""
        while True:
            await self.look()
            await asyncio.sleep(_WATCH_S)

    async def look(self) -> None:
        """Raise EngineError when an engine is gone now."""
        for url in self._server_urls:
            try:
                await self._http.get(f"{url}/health")
            except httpx.ConnectError:
                raise EngineError(f"inference at {url} is gone: see its log") from None
            except httpx.TransportError:
                pass  # busy; a dead process refuses the next connection

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _until_healthy(self, url: str) -> None:
        while True:
            try:
                if (await self._http.get(f"{url}/health")).is_success:
                    return
            except httpx.TransportError:
                pass  # not up yet
            await asyncio.sleep(_HEALTH_POLL_S)

    async def _load(self, version: int) -> None:
        folder = step_folder(self._broadcasts, version)
        await self._post_all("/pause", {})
        try:
            await self._post_all("/update_weights", {"weight_dir": str(folder)})
        finally:
            await self._post_all("/resume", {})
        async with self._changed:
            self.version = version
            self._changed.notify_all()
        for callback in self.on_update:
            callback()
        logger.debug("Policy v%d is served", version)

    async def _post_all(self, path: str, body: dict[str, str]) -> None:
        await asyncio.gather(*(self._post(url, path, body) for url in self._admin_urls))

    async def _post(self, url: str, path: str, body: dict[str, str]) -> None:
        try:
            response = await self._http.post(url + path, json=body)
        except httpx.ConnectError:
            raise EngineError(f"inference at {url} is gone: see its log") from None
        except httpx.TransportError as error:
            raise EngineError(
                f"inference at {url} broke off {path}, see its log: {error!r}"
            ) from error
        if not response.is_success:
            raise EngineError(
                f"inference at {url} answered {path} with {response.status_code}: "
                f"{response.text[:500]}"
            )


def _root(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1")
