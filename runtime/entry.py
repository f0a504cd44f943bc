"""The console script: from its first import on, Ctrl-C ends it in a word and not in a traceback."""

import sys

INTERRUPTED = 130
"""A shell's exit code for a command that Ctrl-C ended."""


def main() -> None:
    """Load the CLI and run it."""
    try:
        from runtime.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
