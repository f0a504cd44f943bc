"""Processes that hear SIGINT: a shell without job control ignores it in what it runs behind."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the processes that are started in the block hear SIGINT, although the tests may not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
