"""`paddock serve` on an address that it cannot have: which one, why, and what to do."""

import socket

import pytest

from runtime.control.app import LOOPBACK, listen
from runtime.errors import SettingsError


def test_a_port_in_use_is_said_so() -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(SettingsError) as refused:
            listen(LOOPBACK, port)

    assert f"{LOOPBACK} port {port}: Address already in use (" in str(refused.value)
    assert "--port" in str(refused.value)


def test_an_address_of_another_machine_is_said_so() -> None:
    with pytest.raises(SettingsError) as refused:
        listen("192.0.2.1", 0)

    assert "--host: cannot listen on 192.0.2.1 port 0: " in str(refused.value)
