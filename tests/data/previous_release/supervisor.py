"""Stands in for a live run's supervisor of another release: `supervisor.py SOCKET HEARD`.

It answers as that release did, writes down what it was asked, and is gone when it is to stop.
Standard library only.
"""

import json
import os
import socket
import sys


def main(path: str, heard: str) -> None:
    """Answer until the request to stop."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(16)
        print("listens", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as file:
                line = file.readline()
                with open(heard, "ab") as log:
                    log.write(line)
                is_end = line != b"" and json.loads(line)["op"] == "stop"
                answer = {"type": "stopping"} if is_end else _described()
                file.write(json.dumps(answer).encode() + b"\n")
            if is_end:
                return


def _described() -> dict[str, object]:
    return {
        "type": "described",
        "pid": os.getpid(),
        "config_digest": "",
        "base_port": 0,
        "devices": [],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
