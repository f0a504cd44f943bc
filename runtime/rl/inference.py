"""Entry point of one inference engine: prime-rl's endpoints over `runtime.rl.generation`.

`python -m runtime.rl.inference @ configs/inference.json --server.port 8100`. Serves /health and
/liveness, /v1/models, /v1/chat/completions, /inference/v1/generate, and for the orchestrator
/pause, /resume and /update_weights. No authentication, as the engine it stands in for: it listens
on loopback. Ends only by a signal.
"""

import asyncio
import logging
import sys
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from runtime.errors import EngineError
from runtime.rl.chat import ChatTokenizer
from runtime.rl.component_config import read_config
from runtime.rl.console import run_component, set_up_logging
from runtime.rl.generation import Completion, Generator
from runtime.rl.generation import Request as Generation
from runtime.rl.inference_wire import (
    ChatRequest,
    GenerateRequest,
    Json,
    UpdateWeights,
    chat_reply,
    chat_stream,
    generate_reply,
)
from runtime.rl.model import load_model, pick_device, serving_dtype, use_threads
from runtime.rl.sampling import SamplingParams
from runtime.rl.views import InferenceView
from runtime.rl.weights import load_weights

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_DISCONNECT_POLL_S = 0.5


def build_app(generator: Generator, chat: ChatTokenizer, config: InferenceView) -> FastAPI:
    """Return the server's routes over a started generator."""
    app = FastAPI(openapi_url=None)
    name = config.vllm.model

    @app.get("/health")
    async def health() -> Response:
        return Response()

    @app.get("/liveness")
    async def liveness() -> Response:
        timeout = config.server.liveness_timeout_seconds
        try:
            await asyncio.wait_for(_command(generator, lambda model: None), timeout)
        except TimeoutError:
            raise HTTPException(503, f"the generator did not answer in {timeout} s") from None
        return Response()

    @app.get("/v1/models")
    async def models() -> Json:
        entry = {"id": name, "object": "model", "max_model_len": generator.max_length}
        return {"object": "list", "data": [entry]}

    @app.post("/inference/v1/generate")
    async def generate(body: GenerateRequest, request: Request) -> Response:
        params = body.sampling_params.params()
        completion = await _complete(generator, body.token_ids, params, request)
        return JSONResponse(generate_reply(completion))

    @app.post("/v1/chat/completions")
    async def chat_completions(body: ChatRequest, request: Request) -> Response:
        if body.max_completion_tokens is not None:
            body.max_tokens = body.max_completion_tokens
        prompt_ids = chat.render(body.messages, body.tools)
        params = body.params(stop_token_ids=chat.stop_token_ids)
        completion = await _complete(generator, prompt_ids, params, request)
        reply = chat_reply(
            chat.text(completion.token_ids),
            completion,
            num_prompt_tokens=len(prompt_ids),
            model=name,
        )
        if not body.stream:
            return JSONResponse(reply)
        events = chat_stream(reply, include_usage=body.stream_options.include_usage)
        return StreamingResponse(events, media_type="text/event-stream")

    _add_admin_routes(app, generator)
    return app


def _add_admin_routes(app: FastAPI, generator: Generator) -> None:
    @app.post("/pause")
    async def pause() -> Json:
        generator.pause()
        return {"status": "paused"}

    @app.post("/resume")
    async def resume() -> Json:
        generator.resume()
        return {"status": "running"}

    @app.post("/update_weights")
    async def update_weights(body: UpdateWeights) -> Json:
        folder = Path(body.weight_dir)
        try:
            await _command(generator, lambda model: load_weights(model, folder))
        except EngineError as error:
            raise HTTPException(400, str(error)) from error
        logger.info("Loaded weights %s", folder.name)
        return {"status": "ok"}


async def _command(generator: Generator, command) -> None:  # noqa: ANN001 - Generator.run's type
    await asyncio.wrap_future(generator.run(command))


async def _complete(
    generator: Generator, prompt_ids: list[int], params: SamplingParams, request: Request
) -> Completion:
    try:
        generation = generator.submit(prompt_ids, params)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    future = asyncio.wrap_future(generation.future)
    while True:
        done, _ = await asyncio.wait({future}, timeout=_DISCONNECT_POLL_S)
        if done:
            return future.result()
        await _drop_if_gone(generation, request)


async def _drop_if_gone(generation: Generation, request: Request) -> None:
    if await request.is_disconnected():
        generation.cancelled = True
        raise HTTPException(499, "the client is gone")


def serve(config: InferenceView) -> None:
    """Load the model and serve it until a signal ends the process."""
    use_threads()
    device = pick_device()
    dtype = serving_dtype(config.vllm.dtype, device)
    logger.info("Loading %s on %s", config.vllm.model, device)
    model = load_model(config.vllm.model, device=device, dtype=dtype)
    max_length = config.vllm.max_model_len or model.config.max_position_embeddings
    generator = Generator(model, max_length=max_length, seed=config.vllm.seed)
    generator.start()
    host = config.server.host or LOOPBACK
    app = build_app(generator, ChatTokenizer(config.vllm.model), config)
    logger.info("Serving %s at http://%s:%d", config.vllm.model, host, config.server.port)
    uvicorn.run(
        app,
        host=host,
        port=config.server.port,
        log_level="warning",
        log_config=None,
        timeout_graceful_shutdown=1,
    )


def main() -> int:
    """Read the configuration and serve."""
    config = read_config(sys.argv[1:], InferenceView)
    set_up_logging(config.log)
    return run_component(partial(serve, config))


if __name__ == "__main__":
    sys.exit(main())
