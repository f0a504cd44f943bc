"""How long a search in the log of a run in pods takes: its file server between, and all of it read.

A file server of a cluster runs beside a log of loguru lines and is asked over loopback, as through
the API server's pod proxy, which the network adds to. Searches whose lines hold a text are looked
for by the file server, and must end within the limit for a gigabyte; the floor is to read the log
through the same server. The least of several times counts.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

from bench.logs import LIMIT_S_PER_GB, LOG, NUM_LINES, make_log
from runtime.control.cluster_source import ClusterSource
from runtime.control.log_search.needles import chosen_find, needles_of
from runtime.control.log_search.patterns import compile_wanted
from runtime.control.log_search.scan import file_blocks, last_lines, sought_blocks
from runtime.kubernetes_api import KubernetesApi
from runtime.launch import files
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.observe.log_filter import LineFilter
from tests.runtime.control.postgres import free_port
from tests.runtime.control.reading.files_proxy import TOKEN, ProxyApi

RUN_ID = "run-1"
TOLD = {
    "text, rare": LineFilter(search="needle in"),
    "text, absent": LineFilter(search="nowhere to be found"),
    "regex, absent": LineFilter(search=r"loss \d+ hay", is_regex=True),
    "regex, alternatives": LineFilter(search=r"(?i)exception|fail(ed|ure)|oom", is_regex=True),
    "level WARNING, text": LineFilter(level="WARNING", search="needle"),
}
READ = {
    "level ERROR": LineFilter(level="ERROR"),
    "regex, address": LineFilter(search=r"(\d{1,3}\.){3}\d{1,3}", is_regex=True),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds a search; 1 where one that the server looks for is over its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of the log")
    parser.add_argument("--repeat", type=int, default=3, help="the least of so many times counts")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        size = make_log(Path(folder) / "runs" / RUN_ID / LOG, options.mib << 20)
        with _served(Path(folder)) as source:
            floor = _least(partial(_read, source, size), options.repeat)
            seconds = {
                name: _least(partial(_search, source, size, search), options.repeat)
                for name, search in (TOLD | READ).items()
            }
    limit = max(0.1, LIMIT_S_PER_GB * size / 10**9)
    over = [name for name in TOLD if seconds[name] > limit]
    result = {"mib": options.mib, "floor: reading": floor, "seconds": seconds, "over": over}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return int(bool(over))


@contextmanager
def _served(volume: Path) -> Iterator[ClusterSource]:
    """Start the file server of a volume as a pod does, and yield what reads through it."""
    token, port = volume / "token", free_port()
    token.write_text(TOKEN)
    command = [sys.executable, files.__file__, "--root", str(volume), "--token-file", str(token)]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        assert "serving" in server.stderr.readline()
        drain = ThreadPoolExecutor(1)
        drain.submit(deque, server.stderr, 0)
        api = cast("KubernetesApi", ProxyApi(port))  # as much of one as is asked
        try:
            yield ClusterSource(RunFiles(api), RUN_ID)
        finally:
            server.terminate()


def _search(source: ClusterSource, size: int, search: LineFilter) -> None:
    wanted = compile_wanted(search)
    choose = partial(chosen_find, partial(source.find, LOG), needles_of(wanted))
    blocks = sought_blocks(partial(source.read, LOG), choose, 0, size)
    last_lines(blocks, wanted, NUM_LINES)


def _read(source: ClusterSource, size: int) -> None:
    blocks = file_blocks(partial(source.read, LOG), 0, size)
    with ThreadPoolExecutor(2) as pool:
        deque(pool.map(lambda block: len(block.load()), blocks), maxlen=0)


def _least(act: Callable[[], object], repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - started)
    return round(min(seconds), 3)


if __name__ == "__main__":
    sys.exit(main())
