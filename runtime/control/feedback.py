"""FeedbackFile: what users of `prime train request` want the operators to know, in one file."""

import json
import logging
import os
import threading
from pathlib import Path

from runtime.control.requests import FeedbackNote
from runtime.control.values import User

_LOG = logging.getLogger(__name__)


class FeedbackFile:
    """Notes of users for the operators, one line of JSON each; `services.Feedback`."""

    def __init__(self, path: Path) -> None:
        """Keep the path; the file is made with the first note."""
        self._path = path
        self._lock = threading.Lock()

    def add(self, user: User, note: FeedbackNote) -> None:
        """Add a note."""
        line = {
            "user": user.email,
            "category": note.category,
            "run": note.run_id,
            "message": note.message,
        }
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with self._lock, os.fdopen(os.open(self._path, flags, 0o600), "a") as file:
            file.write(json.dumps(line) + "\n")
        _LOG.info("feedback of %s is in %s", user.user_id, self._path)
