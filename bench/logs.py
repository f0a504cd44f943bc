"""How long a search in a log takes, live and captured, and what a capture costs; in seconds.

One log of loguru lines with a needle and a few errors is made, searched on the disk, captured, and
searched in its frames. Every search must end within the limit for a gigabyte, in proportion.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from runtime.control.artifact_store import DirectoryStore
from runtime.control.captured_source import CapturedSource
from runtime.control.log_search.patterns import DEFAULT_RANK, Wanted, compile_wanted
from runtime.control.log_search.scan import file_blocks, last_lines
from runtime.control.manifest import CapturedFile, Manifest
from runtime.control.run_capture.parts import Slice, write_part
from runtime.control.run_source import FolderSource
from runtime.observe.log_filter import LineFilter

LIMIT_S_PER_GIB = 1.0
LOG = "logs/attempt_1/trainer.log"
NUM_LINES = 1000
WORDS = [
    "step",
    "reward",
    "loss",
    "request",
    "completed",
    "batch",
    "tokens",
    "engine",
    "prefill",
    "decode",
    "cache",
    "hit",
]
SEARCHES = {
    "tail": LineFilter(),
    "text, rare": LineFilter(search="needle in"),
    "text, absent": LineFilter(search="nowhere to be found"),
    "text, common": LineFilter(search="reward"),
    "regex, absent": LineFilter(search=r"loss \d+ hay", is_regex=True),
    "regex, no literal": LineFilter(search=r"(?i)[a-z]+nowhere", is_regex=True),
    "level ERROR": LineFilter(level="ERROR"),
    "level CRITICAL": LineFilter(level="CRITICAL"),
    "level WARNING, text": LineFilter(level="WARNING", search="needle"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds a search; 1 where one is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the log")
    parser.add_argument("--folder", type=Path, default=None, help="where it is made")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        root = Path(folder)
        size = _make_log(root / "run" / LOG, options.mib << 20)
        source = FolderSource(root / "run")
        store = DirectoryStore(root / "artifacts")
        started = time.perf_counter()
        captured = _capture(source, store, size)
        result: dict[str, object] = {"mib": options.mib, "capture_s": _since(started)}
        limit = max(0.1, LIMIT_S_PER_GIB * size / (1 << 30))
        times = {
            name: (
                _seconds(lambda w: last_lines(_live(source, size), w, NUM_LINES), search),
                _seconds(lambda w: last_lines(captured.blocks(LOG, 0, w), w, NUM_LINES), search),
            )
            for name, search in SEARCHES.items()
        }
    result["live_s"] = {name: pair[0] for name, pair in times.items()}
    result["captured_s"] = {name: pair[1] for name, pair in times.items()}
    result["limit_s"] = limit
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return int(any(seconds > limit for pair in times.values() for seconds in pair))


def _make_log(path: Path, size: int) -> int:
    path.parent.mkdir(parents=True)
    chance = random.Random(1)
    number, written = 0, 0
    with path.open("wb") as file:
        while written < size:
            number += 1
            level = "ERROR" if number % 20_000 == 0 else "DEBUG" if number % 7 == 0 else "INFO"
            words = " ".join(chance.choices(WORDS, k=12))
            needle = " needle in it" if number % 300_000 == 0 else ""
            clock = time.strftime("%H:%M:%S", time.gmtime(number))
            line = f"{clock} {level:>8} {words} {number} {chance.random():.6f}{needle}\n"
            written += file.write(line.encode())
    return written


def _capture(source: FolderSource, store: DirectoryStore, size: int) -> CapturedSource:
    file = CapturedFile(size=size, mtime=0)
    while file.num_kept < size:
        piece = Slice(
            run_id="run-1",
            path=LOG,
            size=size,
            offset=file.num_kept,
            number=len(file.parts),
            first_rank=file.parts[-1].last_rank if file.parts else DEFAULT_RANK,
        )
        file = file.model_copy(update={"parts": (*file.parts, write_part(source, store, piece))})
    manifest = Manifest(run_id="run-1", attempt=1, captured_at=datetime.now(UTC), files={LOG: file})
    return CapturedSource(store, manifest)


def _live(source: FolderSource, size: int):  # noqa: ANN202 - an iterator of blocks
    return file_blocks(lambda offset, length: source.read(LOG, offset, length), 0, size)


def _seconds(search: Callable[[Wanted], object], wanted: LineFilter) -> float:
    started = time.perf_counter()
    search(compile_wanted(wanted))
    return _since(started)


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


if __name__ == "__main__":
    sys.exit(main())
