"""httpx without its command line, which it loads with rich and pygments wherever those are there.

It does without where they are not. That is more than half of its 90 ms, twice in every `up`.
Imported from here by what every `up` loads: the client of the Kubernetes API.
"""

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # None: there is no such module

import httpx  # noqa: E402 - the line above comes first

__all__ = ["httpx"]
