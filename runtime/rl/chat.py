"""Chat messages to token ids and back, by the model's own tokenizer; loaded at the first use.

Training renders in the env server; only evaluations and people talk to the chat endpoint, and
loading a tokenizer takes seconds.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ChatTokenizer:
    """The tokenizer of a model directory."""

    def __init__(self, folder: str) -> None:
        """Remember the directory."""
        self._folder = folder

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerBase":
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._folder, local_files_only=True)

    @cached_property
    def stop_token_ids(self) -> frozenset[int]:
        """Return the ids that end a reply."""
        stop = self._tokenizer.eos_token_id
        return frozenset({stop} if isinstance(stop, int) else ())

    def render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
    ) -> list[int]:
        """Return the prompt's ids, up to where the assistant begins."""
        text = self._tokenizer.apply_chat_template(
            [{**message, "content": _text(message.get("content"))} for message in messages],
            tools=list(tools) if tools else None,
            add_generation_prompt=True,
            tokenize=False,
        )
        assert isinstance(text, str)
        return self._tokenizer.encode(text, add_special_tokens=False)

    def text(self, token_ids: list[int]) -> str:
        """Return the reply without special tokens."""
        decoded = self._tokenizer.decode(token_ids, skip_special_tokens=True)
        assert isinstance(decoded, str)
        return decoded


def _text(content: object) -> str:
    """Return a message's text; content may be a string, or OpenAI's list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
