"""The messages between a supervisor and its clients, and the Unix socket that carries them.

One JSON line asks, one answers. The socket lies in the 0700 state directory and is bound and
connected to through /proc/self/fd, since a path in sockaddr_un ends at 107 bytes. A secret
environment travels in a request and nowhere else; no message is ever logged.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from runtime.errors import NotFoundError, PaddockError, RunStateError, SupervisorError
from runtime.local_state import LocalRun
from runtime.processes import ProcessId, is_alive

INTERRUPTED_S = 5.0
"""Seconds that another update has to go on with a run whose own was killed."""

PREPARE = "runtime.launch.local:prepare_local"
"""What turns a run directory and a plan into components; a test may name another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartRun:
    """The request to place one attempt of a run on this machine; a supervisor's command line.

    The run directory must hold `configs/rl.toml` and `configs/plan.json` before the first component
    is started. `prepare` is `module:function` or `/abs/file.py:function`; `request_timeout_s` is
    how long the supervisor waits for the update to request all planned components. Once `starter`,
    which `start_run` fills in, is dead, nobody is going to, unless the update `is_repeated`: a
    control plane makes it again, which takes it as long as to notice and to start an engine.
    """

    run: LocalRun
    config_digest: str
    num_slots: int
    num_ports: int
    prepare: str = PREPARE
    request_timeout_s: float = 120.0
    starter: ProcessId | None = None
    is_repeated: bool = False

    def patience_s(self, *, is_busy: bool) -> float:
        """Return how long the update's next request may take; short once nobody makes it."""
        is_awaited = is_busy or self.is_repeated
        if is_awaited or self.starter is None or is_alive(self.starter):
            return self.request_timeout_s
        return min(self.request_timeout_s, INTERRUPTED_S)


START_RUN = TypeAdapter(StartRun)

MAX_MESSAGE_BYTES = 4 << 20
"""256 KiB of secrets, each byte at most six characters of JSON, and some room."""


class _Message(BaseModel):
    # an error that shows its input would show a secret
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class DescribeRequest(_Message):
    """Ask who supervises what."""

    op: Literal["describe"] = "describe"


class StartRequest(_Message):
    """Ask for the start of one planned component."""

    op: Literal["start"] = "start"
    component: str
    secret_env: Annotated[dict[str, str], Field(repr=False)]


class StopRequest(_Message):
    """Ask for the end of the whole run."""

    op: Literal["stop"] = "stop"
    reason: str


Request = Annotated[DescribeRequest | StartRequest | StopRequest, Field(discriminator="op")]
REQUEST: TypeAdapter[DescribeRequest | StartRequest | StopRequest] = TypeAdapter(Request)


class Described(_Message):
    """The answer to a DescribeRequest."""

    type: Literal["described"] = "described"
    pid: int
    config_digest: str
    base_port: int
    devices: tuple[str, ...]


class Started(_Message):
    """The answer to a StartRequest; pid and start_ticks are those of the wrapper."""

    type: Literal["started"] = "started"
    component: str
    pid: int
    start_ticks: int
    ports: tuple[int, ...]
    log: str
    started_at: float


class Stopping(_Message):
    """The answer to a StopRequest: the end has begun."""

    type: Literal["stopping"] = "stopping"


class Refused(_Message):
    """The answer to a request that cannot be done; `code` is that of an error class."""

    type: Literal["refused"] = "refused"
    code: str
    message: str


Reply = Annotated[Described | Started | Stopping | Refused, Field(discriminator="type")]
REPLY: TypeAdapter[Described | Started | Stopping | Refused] = TypeAdapter(Reply)
_ERRORS: dict[str, type[PaddockError]] = {
    kind.code: kind for kind in (NotFoundError, RunStateError, SupervisorError)
}


class UnreachableError(SupervisorError):
    """Nobody listens on the supervisor's socket."""


def listen(run: LocalRun) -> socket.socket:
    """Return a listening socket of the attempt; what a dead supervisor left is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short_path(run) as path:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
    listener.listen(64)
    return listener


def remove_socket(run: LocalRun) -> None:
    """Remove the attempt's socket file."""
    (run.state_path / "sockets" / run.socket_name).unlink(missing_ok=True)


def ask(
    run: LocalRun, request: DescribeRequest | StartRequest | StopRequest, *, timeout_s: float
) -> Described | Started | Stopping:
    """Send one request to the attempt's supervisor and return its answer.

    Raises UnreachableError when nobody listens or the answer does not come, and the error that the
    supervisor refuses with.
    """
    try:
        line = _exchange(run, request.model_dump_json().encode() + b"\n", timeout_s=timeout_s)
        reply = REPLY.validate_json(line)
    except (OSError, ValidationError) as error:
        raise UnreachableError(
            f"{run.run_id}: the supervisor of attempt {run.attempt} does not answer "
            f"({type(error).__name__}); its log is {run.supervisor_log}"
        ) from None
    if isinstance(reply, Refused):
        raise _ERRORS.get(reply.code, SupervisorError)(reply.message)
    return reply


def _exchange(run: LocalRun, line: bytes, *, timeout_s: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        with _short_path(run) as path:
            connection.connect(path)
        connection.sendall(line)
        with connection.makefile("rb") as file:
            return file.readline(MAX_MESSAGE_BYTES)


@contextlib.contextmanager
def _short_path(run: LocalRun) -> Iterator[str]:
    folder = os.open(run.state_path / "sockets", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{run.socket_name}"
    finally:
        os.close(folder)
