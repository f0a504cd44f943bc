"""Followed logs of several components: what a look shows goes on where the last look ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.client.logs import new_lines
from runtime.control.requests import LogQuery
from runtime.control.run_reads import run_logs
from runtime.control.run_reads.run_logs import SETTLE_S, RunComponent, read_logs
from runtime.control.run_source import FolderSource
from runtime.control.run_sources import RunFolder
from runtime.launch import wrapper
from tests.runtime.control.reading.run_files import NOON, run_directory, stored_run

TWO = tuple(
    RunComponent(name=f"inference-{n}", role="inference", log=f"inference/node_{n}.log")
    for n in range(2)
)
POLL_S = 5.0
ONE = "[inference-0]"
OTHER = "[inference-1]"


@dataclass(kw_only=True)
class Followed:
    """Two engines whose wrappers write when they are told, and someone who follows them."""

    path: Path
    folder: RunFolder
    clock: SimpleNamespace
    logs: list[wrapper.Log]
    shown: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)

    def write(self, number: int, at: float, line: str) -> None:
        """Let an engine write a line, at a time of its node's clock after noon."""
        self.clock.now = NOON + at
        self.logs[number].write(f"{line}\n".encode())

    def look(self, at: float, num_lines: int = 1000, index: int | None = None) -> list[str]:
        """Return what a request gets at a time of the server's clock after noon."""
        asked = LogQuery(component="inference", num_lines=num_lines, index=index)
        page = read_logs(stored_run(self.path), asked, self.folder, now=NOON + at)
        return page.text.splitlines()

    def poll(self, at: float) -> None:
        """Print what is new, as the client does."""
        window = self.look(at)
        self.printed += new_lines(self.shown, window)
        self.shown = window


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Followed:
    """Return a live run on nodes of a cluster."""
    clock = SimpleNamespace(now=NOON)
    clock.time = clock.monotonic = lambda: clock.now
    monkeypatch.setattr(wrapper, "time", clock)
    monkeypatch.setattr(wrapper.Log, "flush_stdout", lambda self: None)
    monkeypatch.setattr(run_logs, "run_components", lambda run, source: TWO)
    directory = run_directory(tmp_path)
    folder = RunFolder(source=FolderSource(directory.path), is_live=True, is_local=False)
    logs = [wrapper.Log(directory.logs(1) / one.log) for one in TWO]
    return Followed(path=tmp_path, folder=folder, clock=clock, logs=logs)


def play(followed: Followed, events: Sequence[tuple[float, int, str]], until: float) -> None:
    """Write lines in the order of their times, and poll as time goes on."""
    left = sorted(events)
    at = 2.6
    while at <= until:
        while left and left[0][0] <= at:
            time, number, line = left.pop(0)
            followed.write(number, time, line)
        followed.poll(at)
        at += POLL_S


def test_each_line_of_busy_components_is_printed_once(followed: Followed) -> None:
    events = [(n * 0.25 + 0.1 * k, k, f"line {n}") for k in range(2) for n in range(240)]

    play(followed, events, until=62.0 + 2 * POLL_S)

    for number, name in enumerate((ONE, OTHER)):
        mine = [line for line in followed.printed if line.startswith(name)]
        assert mine == [f"{name} line {n}" for n in range(240)], number
    firsts = [line.split(" line ")[1] for line in followed.printed[::50]]
    assert firsts == sorted(firsts, key=int)


def test_a_component_that_speaks_seldom_holds_the_other_back_for_seconds_only(
    followed: Followed,
) -> None:
    events = [(n * 0.5, 0, f"line {n}") for n in range(240)]
    events += [(at, 1, f"rare {at}") for at in (0.2, 31.3, 31.9, 95.7)]

    play(followed, events, until=120.0)

    shown = [line for line in followed.printed if line.startswith(ONE)]
    late_s = 117.6 - 0.5 * (len(shown) - 1)
    assert shown == [f"{ONE} line {n}" for n in range(len(shown))]
    assert late_s < SETTLE_S + 2
    rare = [line for line in followed.printed if line.startswith(OTHER)]
    assert rare == [f"{OTHER} rare {at}" for at in (0.2, 31.3, 31.9, 95.7)]


def test_the_last_line_asked_for_is_the_last_that_is_settled(followed: Followed) -> None:
    followed.write(0, 1, "settled")
    followed.write(0, 9, "too young to be told before another's")
    followed.write(1, 5, "of the other")

    assert followed.look(10, num_lines=1) == [f"{OTHER} of the other"]
    assert followed.look(20, num_lines=1) == [f"{ONE} too young to be told before another's"]


def test_nothing_is_held_back_once_a_run_is_over(followed: Followed) -> None:
    followed.write(0, 1, "one")
    followed.write(1, 9.9, "last words")

    live = followed.look(10)
    followed.folder = replace(followed.folder, is_live=False)

    assert live == [f"{ONE} one"]
    assert followed.look(10) == [f"{ONE} one", f"{OTHER} last words"]


def test_a_clock_that_is_ahead_hides_no_line(followed: Followed) -> None:
    followed.write(0, 1, "one")
    followed.write(1, 70, "a minute ahead")

    assert followed.look(10) == [f"{ONE} one", f"{OTHER} a minute ahead"]


def test_a_single_component_is_shown_at_once(followed: Followed) -> None:
    followed.write(0, 1, "one")
    followed.write(1, 9.9, "just now")

    assert followed.look(10, index=1) == ["just now"]
