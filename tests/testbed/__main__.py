"""The testbed by hand: `python -m tests.testbed build|start|stop|status|kubeconfig`."""

import os
import signal
import sys
from collections.abc import Callable, Mapping

from runtime.errors import SetupError
from tests.testbed import layout, lifecycle
from tests.testbed.layout import KUBECONFIG_VARIABLE
from tests.testbed.programs import build_programs
from toolchain.progress import say

INTERRUPTED_EXIT_CODE = 130  # as a shell says it


def main(arguments: list[str]) -> int:
    """Run one command and return the exit code."""
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(f"usage: python -m tests.testbed {'|'.join(COMMANDS)}", file=sys.stderr)
        return 2
    try:
        return COMMANDS[arguments[0]]()
    except SetupError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("testbed: interrupted; the next command goes on from here", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE


def _build() -> int:
    """Build the programs and install the packages, without starting anything."""
    if _is_replaced():
        return 0
    lifecycle.check_machine()
    print(build_programs().kubernetes.parent.parent)
    return 0


def _start() -> int:
    if _is_replaced():
        return 0
    testbed, _ = lifecycle.start()
    say(lifecycle.TOPIC, f"its kubectl is {testbed.programs.find('kubectl')}")
    print(f"export KUBECONFIG={layout.KUBECONFIG}")
    return 0


def _is_replaced() -> bool:
    """Tell whether the tests are to run against a cluster of the user's."""
    if not os.environ.get(KUBECONFIG_VARIABLE):
        return False
    print(f"{KUBECONFIG_VARIABLE} names a cluster, so there is no testbed")
    return True


def _stop() -> int:
    print("the testbed is gone" if lifecycle.stop() else "there was no testbed")
    return 0


def _status() -> int:
    print(lifecycle.describe())
    return 0 if lifecycle.is_running() else 1


def _kubeconfig() -> int:
    if not lifecycle.is_running():
        print(f"testbed: {lifecycle.describe()}: run `make cluster`", file=sys.stderr)
        return 1
    print(layout.KUBECONFIG)
    return 0


COMMANDS: Mapping[str, Callable[[], int]] = {
    "build": _build,
    "start": _start,
    "stop": _stop,
    "status": _status,
    "kubeconfig": _kubeconfig,
}


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
