"""Runs one stage of `make test` at a time a lane, and its failed tests once more.

Called by `tests.run_stages`; what a report means is decided in `tests.stage_reports`.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.stage_reports import (
    Counts,
    count_results,
    deserves_second_try,
    failures,
    merge_second_try,
    names_of_passed,
)
from tests.stages import BIN, Command, Stage, is_pytest

ROOT = Path(__file__).resolve().parent.parent
INTERRUPT_GRACE_S = 20.0
BUILDING = "builds"  # the log of what is built beside the first stages
BUILD_LIMIT_S = 3600.0
LAST_FAILED = ("--last-failed", "--last-failed-no-failures=none")
NICEST = "19"  # so that the builds take what the stages leave


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What became of a stage."""

    stage: Stage
    counts: tuple[Counts, ...]
    """One for each of its commands."""
    second_tries: tuple[int, ...] = ()
    """The commands whose failed tests are to be run once more."""
    mended: dict[str, str] = field(default_factory=dict)
    """The tests that passed at the second try, each with its first failure."""
    elapsed_s: float = 0.0

    @property
    def total(self) -> Counts:
        """Return the counts of the whole stage."""
        return sum(self.counts, start=Counts())


@dataclass(frozen=True, slots=True)
class Files:
    """Where the output of stages lies, below one folder."""

    folder: Path

    def log(self, name: str) -> Path:
        """Return the log of a stage."""
        return self.folder / f"{name}.log"

    def report(self, name: str, index: int, *, again: bool = False) -> Path:
        """Return the report of a stage's pytest command, or of its second try."""
        return self.folder / f"{name}-{index}{'-again' if again else ''}.xml"

    def cache(self, name: str, index: int) -> Path:
        """Return the cache of a pytest command, in which it keeps what failed."""
        return self.folder / "cache" / f"{name}-{index}"

    def pytest_options(self, name: str, index: int, *, again: bool = False) -> tuple[str, ...]:
        """Return what makes pytest write its report and keep its cache here."""
        report = self.report(name, index, again=again)
        report.unlink(missing_ok=True)
        return f"--junitxml={report}", "-o", f"cache_dir={self.cache(name, index)}"

    def last_line(self, name: str) -> str:
        """Return the end of the last line that a stage printed."""
        lines = self.log(name).read_text(errors="replace").strip().splitlines()
        return lines[-1][-100:] if lines else ""


class Runner:
    """Runs stages and remembers what is running, for progress and for an interrupt."""

    def __init__(self, logs: Path) -> None:
        """Start with nothing running; logs, reports and pytest's caches go to the folder."""
        self._files = Files(logs)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped = threading.Event()

    def run_lane(self, stages: Sequence[Stage]) -> list[Result]:
        """Run stages one after another."""
        return [self._run(stage) for stage in stages if not self._stopped.is_set()]

    def try_again(self, result: Result) -> Result:
        """Run a stage's failed tests once more, and return what the stage came to."""
        name, started = result.stage.name, time.monotonic()
        counts, mended = list(result.counts), {}
        with self._files.log(name).open("ab") as log:
            for index in result.second_tries:
                first = self._files.report(name, index)
                again = self._files.report(name, index, again=True)
                options = self._files.pytest_options(name, index, again=True)
                call = (*result.stage.commands[index], *LAST_FAILED, *options)
                log.write(b"\n===== the failed tests once more =====\n")
                log.flush()
                code = self._call(name, call, log_fd=log.fileno(), limit_s=result.stage.limit_s)
                counts[index] = merge_second_try(
                    counts[index], code=code, first_report=first, report=again
                )
                passed = names_of_passed(again) if again.exists() else set()
                mended |= {test: why for test, why in failures(first).items() if test in passed}
        return replace(
            result,
            counts=tuple(counts),
            second_tries=(),
            mended=mended,
            elapsed_s=result.elapsed_s + time.monotonic() - started,
        )

    def build(self, commands: Sequence[Command]) -> None:
        """Run commands beside the stages; what fails is done again, and said, by its stage."""
        with self._files.log(BUILDING).open("wb") as log:
            for command in commands:
                if not self._stopped.is_set():
                    call = ("nice", "-n", NICEST, *command)
                    self._call(BUILDING, call, log_fd=log.fileno(), limit_s=BUILD_LIMIT_S)

    def describe(self) -> str:
        """Return what is running, each with the last line that it printed."""
        return "; ".join(f"{name}: {self._files.last_line(name)}" for name in sorted(self._running))

    def show(self, result: Result) -> None:
        """Say what a stage came to, with all of its output if it failed."""
        name = result.stage.name
        for test, why in result.mended.items():
            title = f"passed at the second try: {test}; its first failure"
            print(f"\n===== {title} =====\n{why}\n=====")
        if result.total.failed:
            log = self._files.log(name).read_text(errors="replace")
            title = f"{name} failed; all that it printed"
            print(f"\n===== {title} =====\n{log}\n=====", flush=True)
        state = "FAILED" if result.total.failed else "passed"
        say(f"{name} {state} in {result.elapsed_s:.1f} s: {result.total}")

    def stop(self) -> None:
        """End everything that is running."""
        self._stopped.set()
        for process in list(self._running.values()):
            _kill(process)

    def _run(self, stage: Stage) -> Result:
        say(f"{stage.name} ...")
        started = time.monotonic()
        counts, second_tries = [], []
        with self._files.log(stage.name).open("wb") as log:
            for index, command in enumerate(stage.commands):
                log.write(f"$ {_shown(command)}\n".encode())
                log.flush()
                options, report = (), None
                if is_pytest(command):
                    shutil.rmtree(self._files.cache(stage.name, index), ignore_errors=True)
                    options = self._files.pytest_options(stage.name, index)
                    report = self._files.report(stage.name, index)
                remaining_s = started + stage.limit_s - time.monotonic()
                call = (*command, *options)
                code = self._call(stage.name, call, log_fd=log.fileno(), limit_s=remaining_s)
                counts.append(count_results(code, report))
                if report is not None and deserves_second_try(code, report):
                    second_tries.append(index)
        result = Result(
            stage=stage,
            counts=tuple(counts),
            second_tries=tuple(second_tries),
            elapsed_s=time.monotonic() - started,
        )
        if second_tries:
            say(f"{stage.name}: {result.total}; what failed is run once more after its wave")
        else:
            self.show(result)
        return result

    def _call(self, name: str, command: Command, *, log_fd: int, limit_s: float) -> int:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PULUMI_ERROR_OUTPUT_STRING": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._running[name] = process
        try:
            return process.wait(max(limit_s, 1.0))
        except subprocess.TimeoutExpired:
            os.write(log_fd, b"\nended: over the stage's time limit\n")
            return 124
        finally:
            _kill(process)
            del self._running[name]


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"[test] {text}", flush=True)


def _shown(command: Command) -> str:
    return " ".join(command).replace(str(BIN), ".venv/bin")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Interrupt a command, so that pytest cleans up, then end what is left of its group."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(INTERRUPT_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
