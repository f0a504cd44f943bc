"""Logs on the wire: the flags of `prime train logs` as a query, and the lines."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from runtime.control.requests import LogQuery
from runtime.control.wire.model import SnakeAnswer, Text

LogComponent = Literal["orchestrator", "trainer", "inference", "env-server", "router"]
LogLevel = Literal["ERROR", "WARNING", "SUCCESS", "INFO", "DEBUG"]

ENV_SERVER = "env-server"
"""The client's word for `runtime.naming.ENV_SERVER`."""

MAX_LINES = 5000
MAX_INDEX = 100_000
MAX_SINCE_S = 10 * 366 * 86_400


class LogFilters(BaseModel):
    """The flags that both log routes have."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    tail_lines: Annotated[int, Field(ge=1, le=MAX_LINES)] = 1000
    search: Annotated[str, Field(max_length=1024)] | None = None
    regex: bool = False
    level: Annotated[LogLevel, BeforeValidator(lambda level: str(level).upper())] | None = None
    since_seconds: Annotated[int, Field(ge=1, le=MAX_SINCE_S)] | None = None

    def for_component(self, component: str, *, index: int | None, env_name: str | None) -> LogQuery:
        """Return the query for a component."""
        return LogQuery(
            component=component,
            index=index,
            env_name=env_name,
            num_lines=self.tail_lines,
            search=self.search or None,
            is_regex=self.regex and bool(self.search),
            level=self.level,
            since_s=self.since_seconds,
        )


class LogParams(LogFilters):
    """The query of `/logs`; `pod_index` is a rank or a replica."""

    component: LogComponent = "orchestrator"
    env_name: Text | None = None
    pod_index: Annotated[int, Field(ge=0, le=MAX_INDEX)] | None = None

    def to_query(self) -> LogQuery:
        """Return the query."""
        return self.for_component(self.component, index=self.pod_index, env_name=self.env_name)


class EnvServerLogParams(LogFilters):
    """The query of `/env-server-logs`."""

    env_name: Text
    env_index: Annotated[int, Field(ge=0, le=MAX_INDEX)] = 0

    def to_query(self) -> LogQuery:
        """Return the query."""
        return self.for_component(ENV_SERVER, index=self.env_index, env_name=self.env_name)


class LogText(SnakeAnswer):
    """Log lines, oldest first; never null."""

    logs: str
