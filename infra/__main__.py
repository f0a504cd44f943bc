"""Entry point of the Pulumi program: load the stack's settings, call `infra.program.deploy`."""

import pulumi

from infra import program, settings
from runtime.errors import PaddockError

try:
    program.deploy(settings.load())
except PaddockError as error:
    # RunError is shown as its message alone; anything else would be shown as a traceback
    raise pulumi.RunError(str(error)) from None
