"""A limit on what a client may send, counted as it comes in: before it is parsed or kept."""

import re

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.control.errors_http import API

_TOO_LARGE = 413
_LARGE = re.compile(rf"{API}/training/runs(/[^/]+/resume)?")
"""What takes a config or secrets; everything else is small, and cheap to parse."""


class BodyLimit:
    """An ASGI layer that answers 413, in the JSON that the client reads, to a body too large."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, max_large_bytes: int) -> None:
        """Keep the application below; `max_large_bytes` is for a config and secrets."""
        self._app = app
        self._max_bytes = max_bytes
        self._max_large_bytes = max_large_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, as long as its body stays below the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_large = _LARGE.fullmatch(scope["path"]) is not None
        max_bytes = self._max_large_bytes if is_large else self._max_bytes
        detail = f"the request is over {max_bytes:,} bytes: files belong on a volume"
        if _declared_bytes(scope) > max_bytes:
            answer = JSONResponse({"detail": detail}, _TOO_LARGE, {"Connection": "close"})
            await answer(scope, receive, send)
            return
        num_bytes = 0

        async def counted() -> Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > max_bytes:  # a body without a length, in chunks
                raise HTTPException(_TOO_LARGE, detail)
            return message

        await self._app(scope, counted, send)


def _declared_bytes(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0
