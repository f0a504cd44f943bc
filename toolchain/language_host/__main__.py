"""Entry point of the language host: serve on a free port, say which, end with the engine.

Started by the engine as `pulumi-language-python [flags] ENGINE_ADDRESS`.
"""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import grpc
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import language_pb2_grpc

from toolchain.language_host.engine_watch import end_with_parent
from toolchain.language_host.host import PythonHost

NUM_WORKERS = 8
DRAIN_LIMIT_S = 3600.0  # the engine itself kills a host that it no longer wants


def main() -> None:
    """Serve the engine until it interrupts this process or is gone."""
    end_with_parent()
    addresses = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    interrupted = threading.Event()
    _end_on_second_interrupt(interrupted)
    server = grpc.server(ThreadPoolExecutor(NUM_WORKERS), options=_GRPC_CHANNEL_OPTIONS)
    host = PythonHost(engine_address=addresses[-1] if addresses else "")
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    interrupted.wait()
    server.stop(DRAIN_LIMIT_S).wait()


def _end_on_second_interrupt(interrupted: threading.Event) -> None:
    """Let the first SIGINT wait for the calls in progress, so that the engine can cancel them."""

    def handle(signum: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            os._exit(128 + signum)  # a call in progress would hold sys.exit back
        interrupted.set()

    signal.signal(signal.SIGINT, handle)


if __name__ == "__main__":
    main()
