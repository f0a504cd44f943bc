"""Downloads a model into the model cache; the program of the Job that `paddock models add` makes.

Runs in a pod of prime-rl's image, as the text of `python3 -c`, with the image's own
huggingface_hub: `fetch_model.py MODEL [REVISION]`. Prints its progress in lines, and leaves what it
fetched, or why not, where kubelet reads it, so that the outcome is known without the log.
"""

import contextlib
import json
import os
import sys
import threading
from pathlib import Path

TERMINATION_LOG = "/dev/termination-log"
_IGNORED = ["original/*", "*.pth", "*.gguf", "*.onnx"]  # the same weights in another form
_EVERY_S = 10.0


def main(argv: list[str]) -> int:
    """Fetch the model; return the exit code."""
    model, revision = argv[0], (argv[1] if len(argv) > 1 and argv[1] else None)
    os.umask(0o002)  # the group of the volume owns the cache
    from huggingface_hub import snapshot_download

    is_done = threading.Event()
    watcher = threading.Thread(target=_report, args=(_cache_folder(model), is_done), daemon=True)
    watcher.start()
    try:
        folder = snapshot_download(model, revision=revision, ignore_patterns=_IGNORED)
    except Exception as error:  # the process boundary: every cause ends as one line
        return _fail(model, error)
    finally:
        is_done.set()
        watcher.join()
    print(f"{model} is in {folder}", flush=True)
    _leave(json.dumps({"commit": Path(folder).name}))
    return 0


def _fail(model: str, error: Exception) -> int:
    kind = type(error).__name__
    hints = {
        "GatedRepoError": "accept its licence on the hub, and have HF_TOKEN in your shell",
        "RepositoryNotFoundError": "check the name; a private one needs HF_TOKEN in your shell",
        "RevisionNotFoundError": "check --revision",
    }
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = hints.get(kind) or (lines[0] if lines else kind)
    message = f"{model} cannot be fetched ({kind}): {said}"
    print(message, file=sys.stderr, flush=True)
    _leave(message[:4096])
    return 1


def _leave(message: str) -> None:
    with contextlib.suppress(OSError):  # by hand there is no kubelet to read it
        Path(TERMINATION_LOG).write_text(message)


def _cache_folder(model: str) -> Path:
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return Path(home).expanduser() / "hub" / f"models--{model.replace('/', '--')}"


def _report(folder: Path, is_done: threading.Event) -> None:
    while not is_done.wait(_EVERY_S):
        print(f"{_size(folder) / 1024**3:.2f} GiB are there", flush=True)


def _size(folder: Path) -> int:
    total = 0
    for path in folder.glob("blobs/*"):
        try:
            total += path.stat().st_size
        except OSError:  # renamed in between
            continue
    return total


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
