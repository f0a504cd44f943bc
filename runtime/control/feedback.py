"""FeedbackFile: what users of `prime train request` want the operators to know, in one file."""

import json
import logging
import os
import threading
from pathlib import Path

from runtime.control.errors_http import FullError
from runtime.control.requests import FeedbackNote
from runtime.control.values import User

MAX_BYTES = 16 << 20
"""Room for about a thousand of the longest notes."""

_LOG = logging.getLogger(__name__)


class FeedbackFile:
    """Notes of users for the operators, one line of JSON each; `services.Feedback`.

    The file never grows over `max_bytes`: it lies beside the database, which needs the disk more.
    Operators read it and move it away; the next note makes a new one.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """Keep the path; the file is made with the first note."""
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def add(self, user: User, note: FeedbackNote) -> None:
        """Add a note. Raises FullError where the file has no room for it."""
        fields = {
            "user": user.email,
            "category": note.category,
            "run": note.run_id,
            "message": note.message,
        }
        line = json.dumps(fields) + "\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with self._lock, os.fdopen(os.open(self._path, flags, 0o600), "a") as file:
            if os.fstat(file.fileno()).st_size + len(line) > self._max_bytes:
                _LOG.warning("%s is full: move it away to take notes again", self._path)
                raise FullError(
                    f"no more notes are taken: the server's {self._path.name} is full; ask those "
                    "who run this server to move it away"
                )
            file.write(line)
        _LOG.info("feedback of %s is in %s", user.user_id, self._path)
