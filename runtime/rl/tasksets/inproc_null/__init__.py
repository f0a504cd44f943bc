"""Harness `inproc-null`: what `null` does, inside the env server instead of in its own process.

The `null` harness runs no user code, it only asks the model and ends at the first reply without a
tool call; its Python process costs almost a CPU second an episode. This one makes the same single
call to the rollout's interception endpoint. It has no tools: a task that brings some needs `null`.
"""

from typing import Any, ClassVar

import httpx
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

    _http: ClassVar[httpx.AsyncClient | None] = None  # one pool of connections a server process

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
        try:
            response = await self._client().post(
                f"{endpoint.rstrip('/')}/chat/completions",
                json=body,
                headers={"Authorization": f"Bearer {secret}"},
            )
        except httpx.TransportError as error:
            return ProgramResult(exit_code=1, stdout="", stderr=f"model call failed: {error!r}")
        if response.is_success:
            return ProgramResult(exit_code=0, stdout="", stderr="")
        return ProgramResult(exit_code=1, stdout="", stderr=response.text)

    def _messages(self, data: TaskData) -> list[dict[str, Any]]:
        system, prompt = self.resolve_prompt(data)
        head = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            return [*head, {"role": "user", "content": prompt}]
        return [*head, *(message_to_wire(message) for message in prompt or [])]

    @classmethod
    def _client(cls) -> httpx.AsyncClient:
        if cls._http is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
            cls._http = httpx.AsyncClient(timeout=None, limits=limits, trust_env=False)  # noqa: S113
        return cls._http
