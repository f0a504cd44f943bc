"""What a component prints and how it ends: loguru-like lines, exit codes, a quiet SIGTERM.

Called by the `main` of each component, never at import. The stamps have no date, as prime-rl's.
"""

import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

from runtime.errors import PaddockError
from runtime.rl.views import LogView

SUCCESS = 25
"""Level between INFO and WARNING, named as loguru's."""

logger = logging.getLogger(__name__)


class _LineFormatter(logging.Formatter):
    """`HH:MM:SS LEVEL message`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)7s %(message)s", "%H:%M:%S")


class _JsonFormatter(logging.Formatter):
    """One JSON object a line, with the keys of prime-rl's json_logging."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "message": record.getMessage(),
            "module": record.module,
            "function": record.funcName,
            "line": record.lineno,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logging(log: LogView) -> None:
    """Send the process' log lines to stdout in the shape that the config asks for."""
    logging.addLevelName(SUCCESS, "SUCCESS")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_JsonFormatter() if log.json_logging else _LineFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("runtime", "__main__"):  # an entry point's own module is __main__
        logging.getLogger(name).setLevel(_level(log.level))


def run_component(main: Callable[[], None]) -> int:
    """Run a component to its end and return its exit code.

    SIGTERM ends the process at once, without a traceback and with the signal's own status: there is
    no checkpoint on SIGTERM, as in prime-rl.
    """
    signal.signal(signal.SIGTERM, _end_quietly)
    try:
        main()
    except PaddockError as error:
        logger.error("%s", error)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception:  # process boundary
        logger.exception("the component failed")
        return 1
    return 0


def _end_quietly(signum: int, _frame: FrameType | None) -> None:
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def _level(name: str) -> int:
    levels = logging.getLevelNamesMapping()
    return levels.get(name.upper(), logging.DEBUG if name.lower() == "trace" else logging.INFO)
