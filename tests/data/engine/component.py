"""A component that does nothing: `component.py ROLE BEHAVIOUR PORT...`, standard library only."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import time

SECONDS = {"quick": 1.5, "failing": 1.0, "told": 0.0}
CHILD = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"


def main(role: str, behaviour: str, *ports: str) -> int:
    """Say which secrets there are by their digests, hold the ports, live as long as told."""
    for name in sorted(os.environ):
        if name.startswith("CANARY"):
            digest = hashlib.sha256(os.environ[name].encode()).hexdigest()
            print(f"{name} {digest}", flush=True)
    listeners = [socket.create_server(("127.0.0.1", int(port))) for port in ports]
    print(f"12:00:00 INFO {role} serves {len(listeners)} ports", flush=True)
    print("12:00:01 WARNING this is a stand-in", flush=True)
    if role == "inference":  # a child in a session of its own that does not want to end
        subprocess.Popen([sys.executable, "-I", "-S", "-c", CHILD], start_new_session=True)
    if role not in {"orchestrator", "trainer"} or behaviour not in SECONDS:
        time.sleep(600)
    while behaviour == "told" and not os.path.exists("finish"):
        time.sleep(0.1)
    time.sleep(SECONDS[behaviour])
    if role == "orchestrator" and behaviour == "failing":
        print("12:00:02 ERROR the reward is not a number", flush=True)
        return 3
    if role == "orchestrator":
        with open("metrics.jsonl", "a") as metrics:
            metrics.write(json.dumps({"step": 1, "reward/mean": 0.5}) + "\n")
        print("Orchestrator finished.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
