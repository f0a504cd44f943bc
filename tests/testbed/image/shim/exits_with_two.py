"""A taskset that nobody can load: it ends its process as a wrong command line does, every time."""

import sys

print("exits-with-two: error: unrecognized arguments", file=sys.stderr)
raise SystemExit(2)
