"""Runs every stage of `make test`, or those named, and closes with one line of totals.

A stage is one or more commands; its output goes to .pytest_cache/stages/ and is shown in full when
it fails. A stage that cannot run on this machine fails: PADDOCK_SKIP=e2e,crash leaves stages out.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".pytest_cache" / "stages"
SKIP_VARIABLE = "PADDOCK_SKIP"
PROGRESS_INTERVAL_S = 15.0
INTERRUPT_GRACE_S = 20.0
PYTHON = sys.executable
BIN = Path(PYTHON).parent
ENGINE = "engine and not (embedded or crash or e2e)"
TREE_TESTS = ("tests/test_tree.py", "tests/test_wheel.py")

Command = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Commands that are run one after another, all of them, until the limit is over."""

    name: str
    commands: tuple[Command, ...]
    limit_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What became of a stage."""

    name: str
    num_passed: int = 0
    num_failed: int = 0
    num_skipped: int = 0
    elapsed_s: float = 0.0


def pytest_command(*arguments: str) -> Command:
    """Return a pytest command."""
    return (PYTHON, "-m", "pytest", "-q", "--durations=5", *arguments)


# `tools` are the engine's tests of toolchain and policies, apart so that the other core has work.
# A test with several markers belongs to the last of these stages.
STAGES = (
    Stage(
        name="lint",
        commands=(
            (f"{BIN}/ruff", "check"),
            (f"{BIN}/ruff", "format", "--check"),
            (f"{BIN}/lint-imports",),
            pytest_command(*TREE_TESTS),
            (f"{BIN}/pyright",),
        ),
        limit_s=300,
    ),
    Stage(
        name="unit",
        commands=(pytest_command(*(f"--ignore={path}" for path in TREE_TESTS)),),
        limit_s=300,
    ),
    Stage(
        name="tools",
        commands=(pytest_command("-m", ENGINE, "--ignore=tests/engine"),),
        limit_s=900,
    ),
    Stage(name="engine", commands=(pytest_command("-m", ENGINE, "tests/engine"),), limit_s=1500),
    Stage(
        name="embedded",
        commands=(pytest_command("-m", "embedded and not (crash or e2e)"),),
        limit_s=900,
    ),
    Stage(name="crash", commands=(pytest_command("-m", "crash and not e2e"),), limit_s=900),
    Stage(name="e2e", commands=(pytest_command("-m", "e2e"),), limit_s=1200),
)
# Lanes of a wave run side by side, one a core; later waves need the machine for themselves.
WAVES = ((("lint", "unit", "tools"), ("engine",)), (("embedded",),), (("crash",),), (("e2e",),))


class Runner:
    """Runs stages and remembers what is running, for progress and for an interrupt."""

    def __init__(self) -> None:
        """Start with nothing running."""
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._stopped = threading.Event()

    def run_lane(self, stages: Sequence[Stage]) -> list[Result]:
        """Run stages one after another."""
        return [self._run(stage) for stage in stages if not self._stopped.is_set()]

    def describe(self) -> str:
        """Return what is running, each with the last line that it printed."""
        return "; ".join(f"{name}: {_last_line(name)}" for name in sorted(self._running))

    def stop(self) -> None:
        """End everything that is running."""
        self._stopped.set()
        for process in list(self._running.values()):
            _kill(process)

    def _run(self, stage: Stage) -> Result:
        _say(f"{stage.name} ...")
        started = time.monotonic()
        counts = []
        with _log_path(stage.name).open("wb") as log:
            for index, command in enumerate(stage.commands):
                log.write(f"$ {_shown(command)}\n".encode())
                log.flush()
                report = LOGS / f"{stage.name}-{index}.xml"
                report.unlink(missing_ok=True)
                remaining_s = started + stage.limit_s - time.monotonic()
                is_pytest = command[1:3] == ("-m", "pytest")
                call = (*command, f"--junitxml={report}") if is_pytest else command
                code = self._call(stage.name, call, log_fd=log.fileno(), limit_s=remaining_s)
                counts.append(count_results(code, report if is_pytest else None))
        passed, failed, skipped = (sum(column) for column in zip(*counts, strict=True))
        result = Result(
            name=stage.name,
            num_passed=passed,
            num_failed=failed,
            num_skipped=skipped,
            elapsed_s=time.monotonic() - started,
        )
        _report(result)
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
    results = [Result(name=name, num_skipped=1) for name in skipped if name in (names or known)]
    runner = Runner()
    for wave in WAVES:
        lanes = [[known[name] for name in lane if name in chosen] for lane in wave]
        results += _run_wave(runner, [lane for lane in lanes if lane])
    _print_table(results)
    return 1 if any(result.num_failed for result in results) else 0


def _run_wave(runner: Runner, lanes: Sequence[Sequence[Stage]]) -> list[Result]:
    if not lanes:
        return []
    with ThreadPoolExecutor(max_workers=len(lanes)) as pool:
        futures = [pool.submit(runner.run_lane, lane) for lane in lanes]
        said = time.monotonic()
        try:
            while not all(future.done() for future in futures):
                time.sleep(0.1)
                if time.monotonic() - said >= PROGRESS_INTERVAL_S:
                    said = time.monotonic()
                    _say(runner.describe())
        except BaseException:
            runner.stop()
            raise
        return [result for future in futures for result in future.result()]


def count_results(code: int, report: Path | None) -> tuple[int, int, int]:
    """Return passed, failed and skipped of a command; a pytest that ran nothing has failed."""
    if report is None:
        return (1, 0, 0) if code == 0 else (0, 1, 0)
    try:
        suites = ElementTree.parse(report).getroot().iter("testsuite")
    except (FileNotFoundError, ElementTree.ParseError):
        return 0, 1, 0
    num_tests = num_failed = num_skipped = 0
    for suite in suites:
        num_tests += int(suite.get("tests", 0))
        num_failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        num_skipped += int(suite.get("skipped", 0))
    num_passed = max(num_tests - num_failed - num_skipped, 0)
    if num_passed == 0 or (code != 0 and num_failed == 0):
        num_failed = max(num_failed, 1)
    return num_passed, num_failed, num_skipped


def _report(result: Result) -> None:
    log = _log_path(result.name).read_text(errors="replace")
    if result.num_failed:
        print(f"\n===== {result.name} failed; all that it printed =====\n{log}\n=====", flush=True)
    state = "FAILED" if result.num_failed else "passed"
    _say(f"{result.name} {state} in {result.elapsed_s:.1f} s: {_totals([result])}")


def _print_table(results: Sequence[Result]) -> None:
    print(f"\n{'stage':<10} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>9}")
    for result in results:
        counts = f"{result.num_passed:>7} {result.num_failed:>7} {result.num_skipped:>8}"
        note = "" if result.elapsed_s else f"  left out by {SKIP_VARIABLE}"
        print(f"{result.name:<10} {counts} {result.elapsed_s:>9.1f}{note}")
    print(_totals(results), flush=True)


def _totals(results: Sequence[Result]) -> str:
    passed = sum(result.num_passed for result in results)
    failed = sum(result.num_failed for result in results)
    skipped = sum(result.num_skipped for result in results)
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def _say(text: str) -> None:
    print(f"[test] {text}", flush=True)


def _log_path(name: str) -> Path:
    return LOGS / f"{name}.log"


def _last_line(name: str) -> str:
    lines = _log_path(name).read_text(errors="replace").strip().splitlines()
    return lines[-1][-100:] if lines else ""


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


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
