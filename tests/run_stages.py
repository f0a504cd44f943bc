"""Runs every stage of `make test`, or those named, and closes with one line of totals.

A stage is one or more commands; its output goes to .pytest_cache/stages/ and is shown in full when
it fails. A test that fails is run once more, alone, and fails the stage if it fails again. A stage
that cannot run on this machine fails: PADDOCK_SKIP=e2e,crash leaves stages out.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from runtime.errors import SetupError
from tests.stage_reports import Counts
from tests.stage_runner import INTERRUPT_GRACE_S, Result, Runner, say
from tests.stages import BUILDS, STAGES, TESTBED, WAVES, Stage
from tests.testbed import lifecycle

LOGS = Path(__file__).resolve().parent.parent / ".pytest_cache" / "stages"
SKIP_VARIABLE = "PADDOCK_SKIP"
PROGRESS_INTERVAL_S = 15.0

T = TypeVar("T")


def main(names: Sequence[str]) -> int:
    """Run the named stages, all where none is named, and return the exit code."""
    known = {stage.name: stage for stage in STAGES}
    skipped = os.environ.get(SKIP_VARIABLE, "").replace(",", " ").split()
    unknown = {*names, *skipped} - set(known)
    if unknown:
        print(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    chosen = set(names or known) - set(skipped)
    left_out = [name for name in skipped if name in (names or known)]
    results: list[Result] = []
    with _testbed_of(chosen) as runner:
        for wave in WAVES:
            lanes = [[known[name] for name in lane if name in chosen] for lane in wave]
            results += _run_wave(runner, [lane for lane in lanes if lane])
    _print_table(results, left_out)
    return 1 if any(result.total.failed for result in results) else 0


@contextlib.contextmanager
def _testbed_of(chosen: set[str]) -> Iterator[Runner]:
    """Build what the testbed needs beside the first stages, and stop what a stage started."""
    runner = Runner(LOGS)
    if TESTBED not in chosen:
        yield runner
        return
    was_running = lifecycle.is_running()
    building = threading.Thread(target=runner.build, args=(BUILDS,), daemon=True)
    building.start()
    try:
        yield runner
    finally:
        runner.stop()
        building.join(INTERRUPT_GRACE_S)
        if not was_running and os.geteuid() == 0:
            try:
                lifecycle.stop()
            except SetupError as error:
                say(f"the testbed could not be stopped: {error}")


def _run_wave(runner: Runner, lanes: Sequence[Sequence[Stage]]) -> list[Result]:
    """Run lanes side by side, then the tests that failed, one stage after the other."""
    calls = [partial(runner.run_lane, lane) for lane in lanes]
    results = [result for lane in _run_together(runner, calls) for result in lane]
    for index, result in enumerate(results):
        if result.second_tries:
            say(f"{result.stage.name}: once more what failed ...")
            [results[index]] = _run_together(runner, [partial(runner.try_again, result)])
            runner.show(results[index])
    return results


def _run_together(runner: Runner, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run calls side by side, saying how far they are, and return what they return."""
    if not calls:
        return []
    with ThreadPoolExecutor(max_workers=len(calls)) as pool:
        futures = [pool.submit(call) for call in calls]
        said = time.monotonic()
        try:
            while not all(future.done() for future in futures):
                time.sleep(0.1)
                if time.monotonic() - said >= PROGRESS_INTERVAL_S:
                    said = time.monotonic()
                    say(runner.describe())
        except BaseException:
            runner.stop()
            raise
        return [future.result() for future in futures]


def _print_table(results: Sequence[Result], left_out: Sequence[str]) -> None:
    print(f"\n{'stage':<10} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>9}")
    rows = [(name, Counts(skipped=1), 0.0) for name in left_out]
    rows += [(result.stage.name, result.total, result.elapsed_s) for result in results]
    for name, counts, elapsed_s in rows:
        columns = f"{counts.passed:>7} {counts.failed:>7} {counts.skipped:>8}"
        note = f"  left out by {SKIP_VARIABLE}" if name in left_out else ""
        print(f"{name:<10} {columns} {elapsed_s:>9.1f}{note}")
    mended = [test for result in results for test in result.mended]
    if mended:
        print("passed at the second try: " + ", ".join(mended))
    print(sum((counts for _, counts, _ in rows), start=Counts()), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
