"""The bases of the wire's models, and the bounded types of what clients send."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer, StringConstraints
from pydantic.alias_generators import to_camel


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds a line break or another control character")
    return text


Text = Annotated[str, StringConstraints(min_length=1, max_length=256), AfterValidator(_printable)]
"""A name or an id, as long as any of them may be; no database takes a NUL."""

Utc = Annotated[
    datetime,
    PlainSerializer(lambda time: time.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), return_type=str),
]
"""A time in UTC; the client prints it as it is, so its zone is said by Z."""

MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""


class Request(BaseModel):
    """A body that a client sends; an unknown key is refused, so that a slip of the pen is seen."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
    )


class Answer(BaseModel):
    """A body that the server sends, in camelCase."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class SnakeAnswer(BaseModel):
    """A body that the server sends in snake_case: env servers, samples, usage."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Empty(Answer):
    """An answer without content; the client asks for a JSON object even so."""
