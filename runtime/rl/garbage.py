"""Python's cycle collector, tuned for processes that import millions of objects and then serve.

A full collection walks everything that torch, transformers and verifiers made at import. At the
default thresholds that was a fifth of an env server's CPU time an episode.
"""

import gc

_THRESHOLDS = (20_000, 20, 50)


def collect_rarely() -> None:
    """Collect young objects after 20,000 allocations, all of them a thousand times less often."""
    gc.set_threshold(*_THRESHOLDS)
