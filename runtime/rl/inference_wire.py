"""What the inference server's clients send and get: vLLM's and OpenAI's JSON, as far as it is used.

Clients add fields of their own (cache_salt, routing hints), so unknown ones are skipped, as vLLM
does.
"""

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from runtime.rl.generation import Completion
from runtime.rl.sampling import SamplingParams

Json = dict[str, Any]  # Any: a JSON object on its way to a client


class Wire(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="ignore")


class SamplingWire(Wire):
    """Sampling fields shared by both kinds of request; null means the default."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = None
    min_p: float | None = Field(default=None, ge=0, le=1)
    min_tokens: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    stop_token_ids: list[int] | None = None

    def params(self, *, stop_token_ids: frozenset[int] = frozenset()) -> SamplingParams:
        """Return the parameters; the given stop tokens are added to the request's."""
        return SamplingParams(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=self.top_p or 1.0,
            top_k=-1 if self.top_k is None else self.top_k,
            min_p=self.min_p or 0.0,
            min_tokens=self.min_tokens or 0,
            max_tokens=self.max_tokens,
            stop_token_ids=frozenset(self.stop_token_ids or ()) | stop_token_ids,
        )


class GenerateRequest(Wire):
    """POST /inference/v1/generate: tokens in, tokens out."""

    token_ids: list[int] = Field(min_length=1)
    sampling_params: SamplingWire = SamplingWire()


class StreamOptions(Wire):
    """Options of a streamed reply."""

    include_usage: bool = False


class ChatRequest(SamplingWire):
    """POST /v1/chat/completions: messages in, text out."""

    messages: list[Json] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    tools: list[Json] | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()


class UpdateWeights(Wire):
    """POST /update_weights."""

    weight_dir: str


def generate_reply(completion: Completion) -> Json:
    """Return the body of a generate reply; verifiers wants `token_id:<id>` for each token."""
    content = [
        {"token": f"token_id:{token}", "logprob": logprob}
        for token, logprob in zip(completion.token_ids, completion.logprobs, strict=True)
    ]
    choice = {
        "index": 0,
        "token_ids": completion.token_ids,
        "finish_reason": completion.finish_reason,
        "logprobs": {"content": content},
    }
    return {"request_id": uuid.uuid4().hex, "choices": [choice]}


def chat_reply(text: str, completion: Completion, *, num_prompt_tokens: int, model: str) -> Json:
    """Return the body of a chat completion."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": completion.finish_reason,
    }
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": _usage(num_prompt_tokens, len(completion.token_ids)),
    }


def chat_stream(reply: Json, *, include_usage: bool) -> Iterator[str]:
    """Yield a finished chat completion as server-sent events: the text in one piece."""
    choice = reply["choices"][0]
    head = {key: reply[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    pieces = [
        ({"role": "assistant", "content": choice["message"]["content"]}, None),
        ({}, choice["finish_reason"]),
    ]
    for delta, reason in pieces:
        piece = {"index": 0, "delta": delta, "finish_reason": reason}
        yield _event({**head, "choices": [piece]})
    if include_usage:
        yield _event({**head, "choices": [], "usage": reply["usage"]})
    yield "data: [DONE]\n\n"


def _event(body: Json) -> str:
    return f"data: {json.dumps(body)}\n\n"


def _usage(num_prompt_tokens: int, num_completion_tokens: int) -> Json:
    return {
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": num_completion_tokens,
        "total_tokens": num_prompt_tokens + num_completion_tokens,
    }
