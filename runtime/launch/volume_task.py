"""One task on a run volume: upload, fetch a checkpoint, or move and delete a run's directory.

A program of its own in one file, Python 3.10 and the standard library only: the text of
`python3 -c` in the pod of a Job (`runtime.kubernetes_volume_job`). What it has to say it leaves
where kubelet reads it. URLs of a store are secrets, and come in a variable.

    upload PATH OFFSET SIZE   to the URL of UPLOAD_URL; says {"sha256", "md5", "size"}
    fetch RUN STEP FOR        the files of FETCHES into a checkpoint of RUN, with which FOR starts
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
FETCHES = "PADDOCK_FETCHES"
"""{"files": [{"path", "parts": [{"url", "size", "sha256"}]}], "is_last"}"""

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


def fetch(run_id: str, step: int, for_run: str) -> dict:
    """Fetch files of a checkpoint from their URLs; the last list of them makes it whole."""
    wanted = json.loads(os.environ[FETCHES])
    partial = partial_checkpoint(Path(ROOT), run_id, step, for_run=for_run)
    for file in wanted["files"]:
        target = partial / file["path"]
        if target.exists():  # of an earlier try
            continue
        temporary = partial_file(target)
        with temporary.open("wb") as output:
            for part in file["parts"]:
                fetch_part(part, output)
        temporary.replace(target)
    if wanted["is_last"]:
        keep_checkpoint(partial, step)
    return {"num_files": len(wanted["files"])}


def fetch_part(part: dict, output) -> None:  # noqa: ANN001 - a binary file
    """Write what a URL gives to a file; raises OSError where it is not what was captured."""
    url = urlsplit(part["url"])
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    found = hashlib.sha256()
    with contextlib.closing(connect(url.netloc, timeout=_TIMEOUT_S)) as connection:
        connection.request("GET", f"{url.path}?{url.query}" if url.query else url.path)
        answer = connection.getresponse()
        if answer.status >= 300:
            raise OSError(f"the store answers {answer.status} {answer.reason}")
        while piece := answer.read(_PIECE):
            found.update(piece)
            output.write(piece)
    if found.hexdigest() != part["sha256"]:
        raise OSError("a captured object is not what was captured")


def partial_checkpoint(root: Path, run_id: str, step: int, *, for_run: str) -> Path:
    """Return the folder in which a checkpoint is put together for a run that starts with it."""
    checkpoints = root / run_id / "checkpoints"
    for path in (root / run_id, checkpoints):
        if path.is_symlink():  # it might lead into another run's directory
            raise OSError(f"{path.name} of {run_id} is a link")
    return checkpoints / f".step_{step}.for-{for_run}"


def partial_file(target: Path) -> Path:
    """Return where a file is written first; an earlier try that lives still has another place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    return target.with_name(f"{target.name}.{os.urandom(4).hex()}.tmp")


def keep_checkpoint(partial: Path, step: int) -> None:
    """Make a folder the checkpoint that it is; one that another run was quicker with is as good."""
    for left in list(partial.rglob("*.tmp")):  # of tries that were killed
        left.unlink()
    target = partial.with_name(f"step_{step}")
    try:
        partial.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        shutil.rmtree(partial)


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
        elif argv[0] == "fetch":
            said = fetch(argv[1], int(argv[2]), argv[3])
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
