"""What every table of the config has in common: unknown keys refused, "None" read as null.

The classes of the sibling modules mirror the tables of prime-rl's RL config as of
`MIRRORED_REVISION`. They hold types, defaults and limits of single fields; what ties two fields
together is in `rules`, what is worked out from other fields is in `derive`.
"""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

MIRRORED_REVISION = "559b44772"  # prime-rl, 2026-08-21, v0.8.1.dev67

Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
NonNegative = Annotated[float, Field(ge=0)]
EnvVars = dict[str, str]


class Block(BaseModel):
    """A table of the config; a key that it does not declare is an error."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="constants")

    default_types: ClassVar[dict[str, str]] = {}
    """Union tables whose `type` may be left out, with the type that then holds."""

    @model_validator(mode="before")
    @classmethod
    def read_toml_table(cls, data: object) -> object:
        """Read the text "None" of a direct field as null; fill in types that may be left out."""
        if not isinstance(data, dict):
            return data
        read = {key: None if value == "None" else value for key, value in data.items()}
        for key, default in cls.default_types.items():
            table = read.get(key)
            if isinstance(table, dict) and "type" not in table:
                read[key] = {"type": default, **table}
        return read


class OpenBlock(Block):
    """A table whose further keys belong to somebody else: vLLM, a taskset, a harness."""

    model_config = ConfigDict(extra="allow")
