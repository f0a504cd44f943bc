"""A resource whose create takes as long as asked: something to interrupt."""

import os
import time
from pathlib import Path
from typing import Any

from pulumi.dynamic import CreateResult, Resource, ResourceProvider


class SlowThingProvider(ResourceProvider):
    """Write this process's id to a file, wait, and be done."""

    def create(self, props: dict[str, Any]) -> CreateResult:  # the SDK's own signature
        """Create the thing."""
        Path(props["mark_file"]).write_text(str(os.getpid()))
        time.sleep(float(props["seconds"]))
        return CreateResult(id_="thing", outs=dict(props))


class SlowThing(Resource):
    """The thing that the provider makes."""

    def __init__(self, name: str, *, mark_file: str, seconds: float) -> None:
        """Declare it."""
        super().__init__(SlowThingProvider(), name, {"mark_file": mark_file, "seconds": seconds})
