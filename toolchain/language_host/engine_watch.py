"""Ends this process when the one that started it is gone, however that one died.

An engine that is killed with SIGKILL stops none of its plugins, and they would stay for ever. Used
by the language host and by every plugin process of ours, as the first thing they do.
"""

import os
import select
import threading

POLL_INTERVAL_MS = 500  # how late an engine's death is seen where stdin does not tell it
GONE_EXIT_CODE = 70


def end_with_parent() -> None:
    """Start a daemon thread that ends this process at once when its parent is gone.

    The parent is gone when this process has another parent, or when the pipe on stdin, whose other
    end only the engine holds, hangs up: the second also covers a parent that died before this
    call. PR_SET_PDEATHSIG is not used, since it fires when the starting *thread* ends.
    """
    parent_pid = os.getppid()
    threading.Thread(target=_watch, args=(parent_pid,), name="engine-watch", daemon=True).start()


def _watch(parent_pid: int) -> None:
    stdin_poll = select.poll()
    try:
        stdin_poll.register(0, 0)  # no event asked for: POLLHUP and POLLERR always come
    except OSError:
        stdin_poll = None
    while os.getppid() == parent_pid:
        if stdin_poll is None:
            threading.Event().wait(POLL_INTERVAL_MS / 1000)
            continue
        events = stdin_poll.poll(POLL_INTERVAL_MS)
        if not events:
            continue
        if any(event & select.POLLHUP for _, event in events):
            break
        stdin_poll = None  # closed, or of a kind that cannot hang up
    os._exit(GONE_EXIT_CODE)  # without a word: whoever read stdout and stderr is gone too
