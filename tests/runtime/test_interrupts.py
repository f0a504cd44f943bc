"""Ctrl-C ends the commands that wait wherever it meets them, also where Python would lose it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interruptible import interruptible
from tests.waiting import killed_after, wait_for

LOST = """
import os, signal, sys, threading, weakref

class Held:
    lock = threading.Lock()

    def __enter__(self):  # as httpcore's ThreadLock
        self.lock.acquire()
        os.kill(os.getpid(), signal.SIGINT)

    def __exit__(self, *_):
        self.lock.release()

    def close(self):  # as httpcore's ConnectionPool
        with self:
            pass

def meet_a_lock(*_, **__):
    held = Held()
    try:
        with held:
            threading.Event().wait()
    finally:
        held.close()

def meet_a_callback(*_, **__):
    thing = Held()
    reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing
    threading.Event().wait()

def meet_nothing(*_, **__):
    print("waiting", file=sys.stderr, flush=True)
    threading.Event().wait()
"""
"""Work that never ends by itself, and an interrupt in it that Python prints, or that meets a lock
which nobody releases."""

FOLLOWED = """
from pathlib import Path
from runtime import cli, cluster_runs
from runtime.client import logs
from runtime.cluster import KubernetesConnection
from runtime.commands import cluster_view, follow
from runtime.commands.remote import logs as train_logs
from runtime.kubernetes_api import KubernetesApi
from runtime.local_state import LocalRun
from runtime.observe.kubernetes import orphans, reconciler, watch

local = LocalRun(state_path=Path(), run_path=Path(), run_id="one", attempt=1)
connection = KubernetesConnection(context="fake", namespace="lab")
cluster = cluster_runs.ClusterRun(connection=connection, run_id="one", attempt=1)
"""

WORDS = "one goes on: paddock wait one, or paddock stop one\n"
COMMANDS = {
    "locate": ("wait one", "follow.locate_run = {meet}", ""),
    "wait": ("wait one", "follow.locate_run = lambda *_: local; follow.settle_run = {meet}", WORDS),
    "wait on a cluster": (
        "wait one",
        "follow.locate_run = lambda *_: cluster; cluster_view.watch_cluster_run = {meet}",
        WORDS,
    ),
    "logs": (
        "logs one -f",
        "follow.locate_run = lambda *_: local; follow._log_files = lambda *_, **__: [Path('x')]; "
        "follow.follow_log = {meet}",
        "",
    ),
    "logs on a cluster": (
        "logs one -f",
        "follow.locate_run = lambda *_: cluster; cluster_view.open_logs = {meet}",
        "",
    ),
    "stop": (
        "stop one",
        "follow.locate_run = lambda *_: local; follow.stop_run = {meet}",
        "once more: paddock stop one\n",
    ),
    "train logs": (
        "train logs one -f --server http://127.0.0.1:1",
        "os.environ['PADDOCK_API_KEY'] = 'x'; logs.follow_lines = {meet}",
        "",
    ),
    "reconcile --once": (
        "reconcile --context fake --once",
        "KubernetesApi.connect = {meet}",
        "",
    ),
}
"""A command, what stands in for its waiting, and what it says at Ctrl-C."""


def program(text: str, *argv: str) -> list[str]:
    return [sys.executable, "-c", LOST + text, *argv]


def started(text: str, *argv: str) -> "subprocess.Popen[str]":
    with interruptible():
        return subprocess.Popen(program(text, *argv), stderr=subprocess.PIPE, text=True)


def ended(text: str, *argv: str) -> tuple[int, str]:
    """Return the exit code of a program and what it said."""
    with started(text, *argv) as process, killed_after(process):
        assert process.stderr is not None
        said = process.stderr.read()
    return process.returncode, said


@pytest.mark.parametrize("meet", ["meet_a_lock", "meet_a_callback"])
def test_an_interrupt_that_python_loses_ends_the_process(meet: str):
    code, said = ended(
        "from runtime.commands.interrupts import end_by_interrupt\n"
        f"end_by_interrupt({meet}, words='it goes on')"
    )

    assert (code, said) == (130, "it goes on\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_waits_ends(name: str, tmp_path: Path):
    argv, stand_in, words = COMMANDS[name]
    home = f"os.environ['PADDOCK_HOME'] = {str(tmp_path)!r}\n"

    code, said = ended(
        f"{home}{FOLLOWED}{stand_in.format(meet='meet_a_lock')}\ncli.main()", *argv.split()
    )

    assert (code, said) == (130, words)


def test_a_result_and_an_error_come_through():
    code, said = ended(
        "from runtime.commands.interrupts import end_by_interrupt, note_interrupt\n"
        "assert end_by_interrupt(lambda: 7) == note_interrupt(lambda ended: 7) == 7\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "end_by_interrupt(lambda: sys.exit(3))"
    )

    assert (code, said) == (3, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_that_is_noted_lets_the_work_end_by_itself(number: signal.Signals):
    with (
        started(
            "from runtime.commands.interrupts import note_interrupt\n"
            "def work(ended):\n"
            "    print('waiting', file=sys.stderr, flush=True)\n"
            "    ended.wait()\n"
            "    print('ended well', file=sys.stderr)\n"
            "note_interrupt(work)"
        ) as process,
        killed_after(process),
    ):
        stderr = process.stderr
        assert stderr is not None
        wait_for(lambda: "waiting" in stderr.readline())
        process.send_signal(number)
        rest = stderr.read()

    assert (process.returncode, rest) == (0, "ended well\n")


def test_a_second_interrupt_ends_work_that_does_not_listen():
    with (
        started(
            "from runtime.commands.interrupts import note_interrupt\n"
            "def work(ended):\n"
            "    print('waiting', file=sys.stderr, flush=True)\n"
            "    ended.wait()\n"
            "    meet_nothing()\n"
            "note_interrupt(work)"
        ) as process,
        killed_after(process),
    ):
        stderr = process.stderr
        assert stderr is not None
        wait_for(lambda: "waiting" in stderr.readline())
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "waiting" in stderr.readline())
        process.send_signal(signal.SIGINT)

    assert process.returncode == -signal.SIGINT


def test_an_interrupt_that_is_ignored_stays_ignored():
    code, said = ended(
        "from runtime.commands.interrupts import end_by_interrupt\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "end_by_interrupt(lambda: os.kill(os.getpid(), signal.SIGINT))"
    )

    assert (code, said) == (0, "")
