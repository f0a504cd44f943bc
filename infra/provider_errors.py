"""Makes the errors of a dynamic provider readable: the message of ours, not a traceback.

The SDK's provider process answers every exception with `traceback.format_exc()`, so that a refusal
("needs 2 slots, 0 are free") would reach the user as ten lines of Python. Called from `configure`
of each provider, in the provider's own process; anything that is not a PaddockError stays as it is.
The engine waits for that process at its start and at its end, so both are made short here too.
"""

import atexit
import gc
import os
import sys
import traceback
from types import SimpleNamespace

from pulumi.dynamic import ConfigureRequest, ResourceProvider

from runtime.errors import PaddockError


def format_exc() -> str:
    """Return the current exception as text: its message if a user can act on it, else a traceback.

    An OSError (a full disk, a folder that may not be written) is the machine's, not a bug.
    """
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, PaddockError | OSError) else traceback.format_exc()


class Provider(ResourceProvider):
    """A dynamic provider whose PaddockErrors are shown as their message; it keeps no state.

    Subclasses live in modules that are never moved: the engine's state holds them by reference.
    """

    def configure(self, req: ConfigureRequest) -> None:
        """Put `format_exc` in place of the one that the SDK's provider process calls."""
        main = sys.modules.get("__main__")
        if getattr(main, "traceback", None) is not traceback:
            return  # not in that process
        main.traceback = SimpleNamespace(format_exc=format_exc)  # type: ignore[union-attr] # narrowed by getattr
        gc.set_threshold(100_000)  # collecting is a tenth of what imports take, and finds little
        atexit.register(os._exit, 0)  # nothing is left to do; taking every module apart takes 60 ms
