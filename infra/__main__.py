"""Entry point of the Pulumi program: load the stack's settings, call `infra.program.deploy`."""

import gc

import pulumi

from infra.prefetch import prefetch

gc.set_threshold(100_000)  # collecting is a tenth of what imports take, and finds little
asked = prefetch()

from infra import program, settings  # noqa: E402 - loaded while the engine works on the answers
from runtime.errors import PaddockError  # noqa: E402

try:
    program.deploy(settings.load())
except PaddockError as error:
    # RunError is shown as its message alone; anything else would be shown as a traceback
    raise pulumi.RunError(str(error)) from None
