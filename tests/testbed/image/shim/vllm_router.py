"""Stand-in of vllm-router: one address before several engines; healthy when all of them are.

Requests of a session go to one engine, others in turn. It understands the flags that paddock gives
the real one, and leaves out its Prometheus port.
"""

import argparse
import itertools
import zlib

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
SESSION = "x-session-id"


class Router:
    """The engines, and the client that reaches them."""

    def __init__(self, workers: list[str]) -> None:
        self._workers = workers
        self._turn = itertools.count()
        limits = httpx.Limits(max_connections=None)
        self._http = httpx.AsyncClient(timeout=None, trust_env=False, limits=limits)

    async def health(self, request: Request) -> Response:
        """Answer 200 once every engine does."""
        for worker in self._workers:
            try:
                answer = await self._http.get(f"{worker}/health", timeout=10)
            except httpx.TransportError:
                return Response(f"{worker} cannot be reached", 503)
            if not answer.is_success:
                return Response(f"{worker} answers {answer.status_code}", 503)
        return Response()

    async def forward(self, request: Request) -> Response:
        """Pass a request on, and the answer back as it comes."""
        session = request.headers.get(SESSION)
        number = zlib.crc32(session.encode()) if session else next(self._turn)
        worker = self._workers[number % len(self._workers)]
        headers = [pair for pair in request.headers.items() if pair[0].lower() not in HOP_BY_HOP]
        url = httpx.URL(worker).join(request.url.path).copy_with(query=request.url.query.encode())
        sent = self._http.build_request(
            request.method, url, headers=headers, content=await request.body()
        )
        try:
            answer = await self._http.send(sent, stream=True)
        except httpx.TransportError as error:
            return Response(f"{worker}: {error!r}", 502)
        kept = {key: value for key, value in answer.headers.items() if key not in HOP_BY_HOP}
        return StreamingResponse(
            answer.aiter_raw(), answer.status_code, headers=kept, background=_Close(answer)
        )


class _Close:
    """Closes an answer when it is passed on."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    async def __call__(self) -> None:
        await self._answer.aclose()


def main() -> None:
    """Serve until a signal ends the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--worker-urls", nargs="*", default=[])
    parser.add_argument("--prefill", action="append", default=[])
    parser.add_argument("--decode", action="append", default=[])
    parser.add_argument("--vllm-pd-disaggregation", action="store_true")
    options, _ = parser.parse_known_args()
    router = Router([*options.worker_urls, *options.prefill, *options.decode])
    methods = ["GET", "POST"]
    app = Starlette(
        routes=[
            Route("/health", router.health),
            Route("/{path:path}", router.forward, methods=methods),
        ]
    )
    print(f"vllm-router at {options.host}:{options.port}", flush=True)
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
