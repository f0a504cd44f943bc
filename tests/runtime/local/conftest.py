"""The fixture of tests that start local runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import supervisor_client as client
from tests.runtime.local.local_runs import Local


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    """Yield a local cluster of four CPU slots; its runs are released in the end."""
    made = Local(tmp_path)
    yield made
    for run in made.started:
        client.release_run(run)
