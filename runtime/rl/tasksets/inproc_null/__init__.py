"""Harness `inproc-null`: what `null` does, inside the env server instead of in its own process.

The `null` harness runs no user code, it only asks the model and ends at the first reply without a
tool call; its Python process costs almost a CPU second an episode. This one makes the same single
call to the rollout's interception endpoint. It has no tools: a task that brings some needs `null`.
"""

import asyncio
from typing import Any, ClassVar

import aiohttp
from verifiers.v1.clients import ModelContext
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import ProgramResult, Runtime
from verifiers.v1.task import TaskData
from verifiers.v1.trace import Trace

__all__ = ["InprocNullHarness"]


class InprocNullConfig(HarnessConfig):
    """The keys of every harness."""


class InprocNullHarness(Harness[InprocNullConfig]):
    """One chat call an exchange, made by the env server itself."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    # One pool of connections a server process; aiohttp's client costs a fifth of httpx's CPU.
    _http: ClassVar[aiohttp.ClientSession | None] = None
    _keeper: ClassVar[asyncio.Task[None] | None] = None

    async def launch(  # the base class' signature
        self,
        ctx: ModelContext,
        trace: Trace,
        runtime: Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: TaskData,
    ) -> ProgramResult:
        """Ask the model once and report how it went, as a program's result."""
        body = {"model": ctx.model, "messages": self._messages(data)}
        url = f"{endpoint.rstrip('/')}/chat/completions"
        headers = {"Authorization": f"Bearer {secret}"}
        try:
            async with self._client().post(url, json=body, headers=headers) as response:
                text = await response.text()
        except aiohttp.ClientError as error:
            return ProgramResult(exit_code=1, stdout="", stderr=f"model call failed: {error!r}")
        if response.ok:
            return ProgramResult(exit_code=0, stdout="", stderr="")
        return ProgramResult(exit_code=1, stdout="", stderr=text)

    def _messages(self, data: TaskData) -> list[dict[str, Any]]:
        system, prompt = self.resolve_prompt(data)
        head = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            return [*head, {"role": "user", "content": prompt}]
        return [*head, *(message_to_wire(message) for message in prompt or [])]

    @classmethod
    def _client(cls) -> aiohttp.ClientSession:
        if cls._http is None:
            cls._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout()
            )
            cls._keeper = asyncio.create_task(_close_at_the_end(cls._http))
        return cls._http


async def _close_at_the_end(session: aiohttp.ClientSession) -> None:
    """Close the session when the server's event loop cancels its tasks."""
    try:
        await asyncio.Event().wait()
    finally:
        await session.close()
