"""What holds for every test: only this machine is reached, and an Output used as text raises."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


@pytest.fixture(autouse=True, scope="session")
def only_this_machine() -> Iterator[None]:
    """Refuse connections of the test process to anything but the loopback and Unix sockets."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:  # noqa: ANN401 - as socket's own
        is_remote = self.family in {socket.AF_INET, socket.AF_INET6}
        if is_remote and address[0] not in LOCAL_HOSTS:
            raise AssertionError(f"a test connects to {address[0]}: only 127.0.0.1 is allowed")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setitem(os.environ, "PULUMI_ERROR_OUTPUT_STRING", "1")
        yield
