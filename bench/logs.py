"""How long a search in a log takes, live and captured, beside what reading it takes alone.

One log of loguru lines with a needle and a few errors is made, searched on the disk, captured, and
searched in its frames. Of several times the least counts: other work on the machine only adds.
Every search must end within the limit for a gigabyte, in proportion. One whose pattern holds no
three bytes that are rare together is RE2's work, byte by byte, and that of unpacking what is
captured: it must not take much longer than reading and RE2 alone do in the same run. Those of them
that took over a second a gigabyte all the same are told as `over_a_second`.
Where reading alone finds no second core free, its CPU seconds over the cores are judged instead.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import re2

from runtime.control.artifact_store import DirectoryStore
from runtime.control.captured_source import CapturedSource
from runtime.control.log_search.patterns import DEFAULT_RANK, Wanted, compile_wanted
from runtime.control.log_search.scan import Block, file_blocks, last_lines
from runtime.control.manifest import CapturedFile, Manifest
from runtime.control.run_capture.parts import Slice, write_part
from runtime.control.run_source import FolderSource
from runtime.observe.log_filter import LineFilter

LIMIT_S_PER_GB = 1.0
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
    "text of common words, absent": LineFilter(search="reward hay"),
    "regex, many hits": LineFilter(search=r"\d+ \d+\.\d+$", is_regex=True),
    "regex, absent": LineFilter(search=r"loss \d+ hay", is_regex=True),
    "regex, any case": LineFilter(search=r"(?i)[a-z]+nowhere", is_regex=True),
    "regex, ends of a line": LineFilter(search=r"^ERROR.*\d$", is_regex=True),
    "regex, ends of a text": LineFilter(search=r"\AERROR.*\d\z", is_regex=True),
    "regex, alternatives": LineFilter(search=r"(?i)exception|fail(ed|ure)|oom", is_regex=True),
    "regex, any between": LineFilter(search=r"step.*zzz.*reward", is_regex=True),
    "regex, Unicode class": LineFilter(search=r"\p{Greek}+", is_regex=True),
    "level ERROR": LineFilter(level="ERROR"),
    "level CRITICAL": LineFilter(level="CRITICAL"),
    "level WARNING, text": LineFilter(level="WARNING", search="needle"),
}
NOTHING_RARE = {
    "regex, classes": LineFilter(search=r"[a-zA-Z]+\d+[a-z]+", is_regex=True),
    "regex, digits": LineFilter(search=r"\d{12}", is_regex=True),
    "regex, long word": LineFilter(search=r"\w{40}", is_regex=True),
    "regex, address": LineFilter(search=r"(\d{1,3}\.){3}\d{1,3}", is_regex=True),
    "regex, nothing rare": LineFilter(search=r"[a-z] \d{1,9} 0\.\d+ \d*$", is_regex=True),
}
RE2_SLACK = 1.3
NUM_CORES = 2
BUSY = 0.8
READING = "floor: reading, a byte"
READING_RE2 = "floor: reading, RE2"

Times = dict[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """The log, on the disk and captured."""

    source: FolderSource
    size: int
    store: DirectoryStore
    manifest: Manifest

    def live(self, wanted: Wanted) -> Iterator[Block]:
        """Return the blocks of the file."""
        return file_blocks(lambda at, length: self.source.read(LOG, at, length), 0, self.size)

    def captured(self, wanted: Wanted) -> Iterator[Block]:
        """Return the blocks of the frames, as a server that has not read them before."""
        return CapturedSource(self.store, self.manifest).blocks(LOG, 0, wanted)


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds a search; 1 where one is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the log")
    parser.add_argument("--folder", type=Path, default=None, help="where it is made")
    parser.add_argument("--repeat", type=int, default=3, help="the least of so many times counts")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        root = Path(folder)
        size = make_log(root / "run" / LOG, options.mib << 20)
        source, store = FolderSource(root / "run"), DirectoryStore(root / "artifacts")
        started = time.perf_counter()
        log = Log(source=source, size=size, store=store, manifest=_capture(source, store, size))
        capture_s = round(time.perf_counter() - started, 3)
        rows, over, slow = _measure(log, options.repeat)
    result = {
        "mib": options.mib,
        "capture_s": capture_s,
        "seconds": rows,
        "over_a_second": slow,
        "over": over,
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return int(bool(over))


def _measure(log: Log, repeat: int) -> tuple[dict[str, dict[str, Times]], list[str], list[str]]:
    """Return the times of all searches, floors first, who is over its limit, and over a second."""
    rows: dict[str, dict[str, Times]] = {}
    over: list[str] = []
    slow: list[str] = []
    limit = max(0.1, LIMIT_S_PER_GB * log.size / 10**9)
    searches = SEARCHES | NOTHING_RARE
    for kind, blocks in (("live", log.live), ("captured", log.captured)):
        acts = {
            READING: partial(_floor, blocks, lambda text: b"\0" in text),
            READING_RE2: partial(_floor, blocks, re2.compile(r"\d[a-z]\d").search),
        }
        acts |= {name: partial(_search, blocks, search) for name, search in searches.items()}
        for name, act in acts.items():
            rows.setdefault(name, {})[kind] = _least(act, repeat)
        is_busy = rows[READING][kind]["wall"] > BUSY * rows[READING][kind]["cpu"]
        for name in searches:
            floor = rows[READING_RE2][kind] if name in NOTHING_RARE else None
            most = limit if floor is None else max(limit, RE2_SLACK * _judged(floor, is_busy))
            took = _judged(rows[name][kind], is_busy)
            over += [f"{name}, {kind}"] if took > most else []
            slow += [f"{name}, {kind}"] if took > limit else []
    return rows, over, slow


def _judged(times: Times, is_busy: bool) -> float:
    return times["cpu"] / NUM_CORES if is_busy else times["wall"]


def _search(blocks: Callable[[Wanted], Iterator[Block]], search: LineFilter) -> None:
    wanted = compile_wanted(search)
    last_lines(blocks(wanted), wanted, NUM_LINES)


def _floor(blocks: Callable[[Wanted], Iterator[Block]], look: Callable[[bytes], object]) -> None:
    with ThreadPoolExecutor(NUM_CORES) as pool:
        deque(pool.map(lambda block: look(block.load()), blocks(Wanted())), maxlen=0)


def _least(act: Callable[[], object], repeat: int) -> Times:
    """Return the least wall and CPU seconds of several calls."""
    walls, cpus = [], []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"wall": round(min(walls), 3), "cpu": round(min(cpus), 3)}


def make_log(path: Path, size: int) -> int:
    """Write a log of so many bytes or a few more; return how many."""
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


def _capture(source: FolderSource, store: DirectoryStore, size: int) -> Manifest:
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
    return Manifest(run_id="run-1", attempt=1, captured_at=datetime.now(UTC), files={LOG: file})


if __name__ == "__main__":
    sys.exit(main())
