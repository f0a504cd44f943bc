"""The inference server's endpoints, called in process."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest
import torch

from runtime.rl.chat import ChatTokenizer
from runtime.rl.generation import Generator
from runtime.rl.inference import build_app
from runtime.rl.model import load_model
from runtime.rl.views import InferenceView, VllmView
from runtime.rl.weights import save_weights

pytestmark = pytest.mark.embedded

Ask = Callable[[Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]], httpx.Response]


@pytest.fixture
def ask(raw_model: str) -> Iterator[Ask]:
    torch.set_num_threads(1)
    model = load_model(raw_model, device=torch.device("cpu"), dtype=torch.float32)
    generator = Generator(model, max_length=64)
    generator.start()
    config = InferenceView(vllm=VllmView(model=raw_model))
    app = build_app(generator, ChatTokenizer(raw_model), config)

    def run(call: Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]) -> httpx.Response:
        async def inner() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
                return await call(http)

        return asyncio.run(inner())

    yield run
    generator.pause()


def test_generate_answers_in_the_form_that_verifiers_wants(ask: Ask):
    body = {
        "model": "tiny",
        "token_ids": [5, 6, 7],
        "cache_salt": "7",
        "sampling_params": {
            "temperature": 1.0,
            "top_k": -1,
            "max_tokens": 6,
            "stop_token_ids": [2],
            "logprobs": 1,
            "skip_special_tokens": False,
        },
    }

    reply = ask(lambda http: http.post("/inference/v1/generate", json=body)).json()

    (choice,) = reply["choices"]
    content = choice["logprobs"]["content"]
    assert [item["token"] for item in content] == [f"token_id:{i}" for i in choice["token_ids"]]
    assert all(item["logprob"] <= 0 for item in content)
    assert choice["finish_reason"] in ("stop", "length")


@pytest.mark.parametrize(
    "body",
    [
        {"token_ids": []},
        {"token_ids": [5] * 64},
        {"token_ids": [5], "sampling_params": {"temperature": -1}},
    ],
)
def test_a_request_that_cannot_be_served_is_refused(ask: Ask, body: dict[str, object]):
    reply = ask(lambda http: http.post("/inference/v1/generate", json=body))

    assert reply.status_code in (400, 422)


def test_chat_streams_text_and_usage(ask: Ask):
    body = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "abc"}]}],
        "max_completion_tokens": 4,
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    reply = ask(lambda http: http.post("/v1/chat/completions", json=body))

    events = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    first, last, usage = (json.loads(event) for event in events[:-1])
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert last["choices"][0]["finish_reason"] in ("stop", "length")
    assert usage["usage"]["completion_tokens"] <= 4


def test_health_models_and_liveness_answer(ask: Ask, raw_model: str):
    assert ask(lambda http: http.get("/health")).status_code == 200
    assert ask(lambda http: http.get("/liveness")).status_code == 200
    models = ask(lambda http: http.get("/v1/models")).json()
    assert models["data"][0] == {"id": raw_model, "object": "model", "max_model_len": 64}


def test_weights_are_updated_over_http_and_refused_when_missing(
    ask: Ask, raw_model: str, tmp_path: Path
):
    model = load_model(raw_model, device=torch.device("cpu"), dtype=torch.float32)
    save_weights(model, tmp_path)

    def post(path: str, **body: str) -> httpx.Response:
        return ask(lambda http: http.post(path, json=body))

    assert post("/pause").is_success
    assert post("/update_weights", weight_dir=str(tmp_path)).is_success
    missing = post("/update_weights", weight_dir=str(tmp_path / "missing"))
    assert post("/resume").is_success

    assert missing.status_code == 400
    assert "no safetensors weights" in missing.text
