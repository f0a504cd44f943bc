"""NCCL's own log lines say which network it uses; shapes of NCCL 2.8 to 2.30 and aws-ofi-nccl."""

import pytest

from runtime.observe.kubernetes.transport import degraded_warning, transport_of

SOCKET = """\
worker-0:26:26 [0] NCCL INFO Bootstrap : Using eth0:10.1.0.12<0>
worker-0:26:26 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.
worker-0:26:31 [0] NCCL INFO NET/IB : No device found.
worker-0:26:31 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.0.12<0>
worker-0:26:31 [0] NCCL INFO Using non-device net plugin version 0
worker-0:26:31 [0] NCCL INFO Using network Socket
"""
SOCKET_NEW = """\
node-0-0:152:386 [0] NCCL INFO Failed to initialize NET plugin IB
node-0-0:152:386 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.4.51<0>
node-0-0:152:386 [0] NCCL INFO Initialized NET plugin Socket
node-0-0:152:386 [0] NCCL INFO Assigned NET plugin Socket to comm
"""
IB = """\
head:7:19 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.9.0.1<0>
head:7:19 [0] NCCL INFO Using network IB
head:7:19 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
"""
IB_AFTER_PROBE = """\
head:7:19 [0] NCCL INFO NET/IB : No device found.
head:7:19 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [RO]; OOB enp1s0:192.168.100.10<0>
head:7:19 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0
"""
PLUGIN = "gpu-0:924:1152 [5] NCCL INFO Using network IBext_v8\n"
EFA = """\
[1,0]<stdout>:w-0:21:21 [0] NCCL INFO NET/OFI Selected Provider is efa (found 32 nics)
[1,0]<stdout>:w-0:21:21 [0] NCCL INFO Using network AWS Libfabric
"""
EFA_NEW = """\
n-0:172:172 [0] NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v11)
n-0:172:172 [0] NCCL INFO Using network Libfabric
n-0:172:172 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)
"""
OFI_TCP = """\
n-0:172:172 [0] NCCL INFO NET/OFI Selected provider is tcp, fabric is 10.0.0.0/16 (found 2 nics)
n-0:172:172 [0] NCCL INFO Using network Libfabric
"""
CHANNEL_ONLY = "n:1:2 [3] NCCL INFO Channel 01/0 : 3[3] -> 12[4] [send] via NET/Socket/0\n"
LOGURU = "12:00:01 [rank0] x:1:2 [0] NCCL INFO Using network Socket\n"
LOCAL = "n:1:2 [3] NCCL INFO Channel 01 : 3[3] -> 4[4] via P2P/IPC\n"
WORDS = "I said: Using network Socket, and NET/Socket too\n"


@pytest.mark.parametrize(
    ("log", "network", "provider", "is_degraded"),
    [
        (SOCKET, "Socket", "", True),
        (SOCKET_NEW, "Socket", "", True),
        (IB, "IB", "", False),
        (IB_AFTER_PROBE, "IB", "", False),
        (PLUGIN, "IBext_v8", "", False),
        (EFA, "AWS Libfabric", "efa", False),
        (EFA_NEW, "Libfabric", "efa", False),
        (OFI_TCP, "Libfabric", "tcp", True),
        (CHANNEL_ONLY, "Socket", "", True),
        (LOGURU, "Socket", "", True),
        # one slow rank slows them all
        (IB + SOCKET, "Socket", "", True),
    ],
)
def test_the_log_tells_the_transport(log: str, network: str, provider: str, is_degraded: bool):
    transport = transport_of(log.splitlines())

    assert transport is not None
    assert (transport.network, transport.provider) == (network, provider)
    assert transport.is_degraded is is_degraded


@pytest.mark.parametrize("log", ["", LOCAL, WORDS, "12:00 INFO Step 1 | reward 0.5\n"])
def test_a_log_without_nccl_s_word_tells_nothing(log: str):
    assert transport_of(log.splitlines()) is None


def test_the_warning_names_component_network_and_device():
    transport = transport_of(OFI_TCP.splitlines())

    assert transport is not None
    words = degraded_warning("trainer-1", transport, resource="vpc.amazonaws.com/efa")
    assert words.startswith("TRANSPORT_DEGRADED: NCCL of trainer-1 uses Libfabric (provider tcp)")
    assert "vpc.amazonaws.com/efa" in words
