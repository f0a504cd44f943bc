"""Ctrl-C in commands that wait: a thread does the work, the main thread only listens for signals.

Python raises KeyboardInterrupt in whatever the main thread is at. In a callback of a weak reference
it is printed and lost. In httpcore 1.0.9, where `ThreadLock.__enter__` has just taken the pool's
lock, nobody releases that lock, and closing the client waits for it for ever. Here a signal's
number comes through a pipe, so nothing is raised and no work is interrupted in the middle.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from runtime.commands.session import say
from runtime.entry import INTERRUPTED

T = TypeVar("T")

_DONE = 0
"""What the thread writes into the pipe at its end; no signal has this number."""


def end_by_interrupt(work: Callable[[], T], *, words: str = "") -> T:
    """Return what `work` returns; Ctrl-C ends the process at once, with exit code 130.

    `words` are said then; a second Ctrl-C does not wait for that. The work is not unwound: it must
    be one that may be killed anywhere.
    """

    def end() -> None:
        try:
            if words:
                say(words)
        finally:  # who reads the words may have ended by the same Ctrl-C
            os._exit(INTERRUPTED)  # at a usual exit, Python waits for locks that the work may hold

    return _attend(work, (signal.SIGINT,), end)


def note_interrupt(work: Callable[[threading.Event], T]) -> T:
    """Return what `work` returns, which ends when the event that it is given is set.

    SIGINT or SIGTERM sets it; a second one kills the process, whatever it is doing.
    """
    ended = threading.Event()
    return _attend(lambda: work(ended), (signal.SIGINT, signal.SIGTERM), ended.set)


def _attend(
    work: Callable[[], T], numbers: tuple[signal.Signals, ...], tell: Callable[[], None]
) -> T:
    """Return what `work` returns; call `tell` in the main thread when one of the signals comes."""
    future: Future[T] = Future()
    with _delivered(numbers) as (reader, writer):

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # whatever ends the work is raised in the main thread
                future.set_exception(error)
            os.write(writer, bytes([_DONE]))

        threading.Thread(target=run, name="work", daemon=True).start()
        while (number := os.read(reader, 1)[0]) != _DONE:
            if number in numbers:
                tell()
    return future.result()


@contextmanager
def _delivered(numbers: tuple[signal.Signals, ...]) -> Iterator[tuple[int, int]]:
    """Yield the two ends of a pipe through which the first of these signals comes, as its number.

    The next one has its default action. A signal that is ignored stays so: a shell without job
    control ignores SIGINT for what runs in its background.
    """
    heard = [one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN]

    def leave_the_next(*_: object) -> None:
        for one in heard:
            signal.signal(one, signal.SIG_DFL)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fd = signal.set_wakeup_fd(writer)
    before = [(one, signal.signal(one, leave_the_next)) for one in heard]
    try:
        yield reader, writer
    finally:
        for one, handler in before:
            signal.signal(one, handler)
        signal.set_wakeup_fd(fd)
        os.close(reader)
        os.close(writer)
