"""One task on a run volume: upload a part of a file, or move and delete a run's directory.

A program of its own in one file, Python 3.10 and the standard library only: the text of
`python3 -c` in the pod of a Job (`runtime.kubernetes_volume_job`). What it has to say it leaves
where kubelet reads it. An upload's URL is a secret, and comes in a variable.

    upload PATH OFFSET SIZE   to the URL of UPLOAD_URL; says {"sha256", "md5", "size"}
    aside RUN, back RUN, delete RUN
"""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

TERMINATION_LOG = "/dev/termination-log"
UPLOAD_URL = "PADDOCK_UPLOAD_URL"
ROOT = "/paddock/run"
"""The run directory (upload), or the folder of all of them."""

ASIDE = ".pruned."
_PIECE = 1 << 20
_TIMEOUT_S = 300.0


class Body:
    """A part of a file as the body of a request, hashed while it is read."""

    def __init__(self, file, size: int) -> None:  # noqa: ANN001 - a binary file
        self._file = file
        self._left = size
        self.sha256 = hashlib.sha256()
        self.md5 = hashlib.md5(usedforsecurity=False)
        self.size = 0

    def read(self, size: int = _PIECE) -> bytes:
        """Return the next piece, empty at the end."""
        piece = self._file.read(min(size, self._left))
        self._left -= len(piece)
        self.size += len(piece)
        self.sha256.update(piece)
        self.md5.update(piece)
        return piece


def upload(path: str, offset: int, size: int) -> dict:
    """Put a part of a file to the URL; return what was sent."""
    url = urlsplit(os.environ[UPLOAD_URL])
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = connect(url.netloc, timeout=_TIMEOUT_S)
    with (Path(ROOT) / path).open("rb") as file, contextlib.closing(connection):
        file.seek(offset)
        body = Body(file, size)
        target = f"{url.path}?{url.query}" if url.query else url.path
        connection.request("PUT", target, body=body, headers={"Content-Length": str(size)})
        answer = connection.getresponse()
        answer.read()
        if answer.status >= 300:
            raise OSError(f"the store answers {answer.status} {answer.reason}")
        if body.size != size:
            raise OSError(f"the file ended after {body.size} of {size} bytes")
    return {"sha256": body.sha256.hexdigest(), "md5": body.md5.hexdigest(), "size": body.size}


def aside(run_id: str) -> dict:
    """Take a run's directory out of the way; say whether there was one."""
    path, hidden = Path(ROOT) / run_id, Path(ROOT) / f"{ASIDE}{run_id}"
    if not path.exists():
        return {"moved": hidden.exists()}
    shutil.rmtree(hidden, ignore_errors=True)
    path.rename(hidden)
    return {"moved": True}


def back(run_id: str) -> dict:
    """Undo `aside`."""
    with contextlib.suppress(OSError):
        (Path(ROOT) / f"{ASIDE}{run_id}").rename(Path(ROOT) / run_id)
    return {}


def delete(run_id: str) -> dict:
    """Delete what was taken out of the way."""
    shutil.rmtree(Path(ROOT) / f"{ASIDE}{run_id}")
    return {}


def main(argv: "list[str]") -> int:
    """Do the task; return the exit code."""
    tasks = {"aside": aside, "back": back, "delete": delete}
    try:
        if argv[0] == "upload":
            said = upload(argv[1], int(argv[2]), int(argv[3]))
        else:
            said = tasks[argv[0]](argv[1])
    except Exception as error:  # the process boundary: every cause ends as one line
        _leave(f"{argv[0]}: {type(error).__name__}: {error}"[:4096])
        return 1
    _leave(json.dumps(said))
    return 0


def _leave(message: str) -> None:
    print(message, flush=True)
    with contextlib.suppress(OSError):  # by hand there is no kubelet to read it
        Path(TERMINATION_LOG).write_text(message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
