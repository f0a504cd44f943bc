"""The bases of the wire's models, and the bounded types of what clients send."""

from datetime import datetime
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

from runtime.naming import is_one_line


def _printable(text: str) -> str:
    if not is_one_line(text):
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

MAX_PAGE_SIZE = 1000

PageSize = Annotated[int, Field(ge=1), AfterValidator(lambda size: min(size, MAX_PAGE_SIZE))]
"""How much a page holds: who asks for more gets the most there is, and reads it in the answer."""

MAX_UNKNOWN_KEYS = 64
"""So many are told one by one; a body of more is no slip of the pen."""


def at_most(num: int) -> BeforeValidator:
    """Return a validator that refuses more entries in one problem: pydantic tells each wrong one.

    Its own `max_length` counts the right ones only, after all of them.
    """

    def check(value: object) -> object:
        if isinstance(value, dict | list) and len(value) > num:
            raise ValueError(f"has {len(value):,} entries, more than {num}")
        return value

    return BeforeValidator(check)


class Request(BaseModel):
    """A body that a client sends; an unknown key is refused, so that a slip of the pen is seen."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _has_few_keys(cls, body: object) -> object:
        """Refuse in one problem what has far too many keys: a list of them is dear to make."""
        num_known = len(cls.model_fields)
        if isinstance(body, dict) and len(body) > num_known + MAX_UNKNOWN_KEYS:
            raise ValueError(f"has {len(body):,} keys, and {num_known} are known")
        return body


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
