"""A directory as the artifact store: one that can never be written stops a server's start."""

from pathlib import Path

import pytest

from runtime.control.artifact_store import (
    ArtifactRefusedError,
    check_artifact_store,
    open_artifact_store,
)
from runtime.control.run_captures import StoreCapturer
from tests.runtime.control.reading.clusters import sources_of


def test_a_folder_below_a_file_is_refused_and_the_variable_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_artifact_store(str(tmp_path / "file" / "artifacts"))

    with pytest.raises(ArtifactRefusedError) as refused:
        check_artifact_store(store, "server-1")
    with pytest.raises(ArtifactRefusedError):
        StoreCapturer(sources_of(tmp_path, store))

    assert "PADDOCK_ARTIFACTS" in str(refused.value)
