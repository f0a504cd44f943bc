"""A component that counts: `sleeper.py ROLE BEHAVIOUR PORT...`, standard library only.

It notes each start of its own in the run directory, prints numbered lines, and notes beside its
starts how many it has printed, so that a line that is lost is found.
"""

import os
import socket
import subprocess
import sys
import time

TICK_S = 0.1
LINES_A_TICK = 4
CHILD = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"


def main(role: str, behaviour: str, *ports: str) -> int:
    """Live as long as the behaviour says: `ends-700` 0.7 s, `fails-700` too, with exit code 3."""
    name = os.environ["PADDOCK_COMPONENT"]
    os.makedirs("starts", exist_ok=True)
    with open(f"starts/{name}", "a") as starts:
        starts.write(f"{os.getpid()}\n")
    listeners = [socket.create_server(("127.0.0.1", int(port))) for port in ports]
    if role == "inference":  # a child in a session of its own that does not want to end
        subprocess.Popen([sys.executable, "-I", "-S", "-c", CHILD], start_new_session=True)
    kind, _, milliseconds = behaviour.partition("-")
    is_endless = role not in {"orchestrator", "trainer"}
    _print_lines(name, 600.0 if is_endless else int(milliseconds) / 1000)
    for listener in listeners:
        listener.close()
    if role == "orchestrator" and kind == "fails":
        return 3
    if role == "orchestrator":
        print("Orchestrator finished.", flush=True)
    return 0


def _print_lines(name: str, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    count = os.open(f"starts/{name}.count", os.O_WRONLY | os.O_CREAT, 0o644)
    number = 0
    while time.monotonic() < ends_at:
        for _ in range(LINES_A_TICK):
            number += 1
            print(f"12:00:00 INFO line {number} of {name}", flush=True)
            os.pwrite(count, b"%09d" % number, 0)
        time.sleep(TICK_S)
    os.close(count)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
