"""A local volume's folder: made or adopted, and removed or said to be there still."""

from pathlib import Path

import pytest

from infra.local.folder import LocalVolumeProvider


def test_a_folder_that_paddock_made_is_removed_and_a_missing_one_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "shelf"
    made = LocalVolumeProvider().create({"path": str(path)})
    assert (path / "runs").is_dir()

    for _ in range(2):
        LocalVolumeProvider().delete(str(made.id), made.outs or {})

    assert not path.exists()


def test_an_adopted_folder_stays(tmp_path: Path) -> None:
    made = LocalVolumeProvider().create({"path": str(tmp_path)})

    LocalVolumeProvider().delete(str(made.id), made.outs or {})

    assert tmp_path.is_dir()


def test_an_up_that_is_repeated_takes_its_own_folder_for_its_own(tmp_path: Path) -> None:
    props = {"path": str(tmp_path / "shelf"), "volume": "shelf"}

    LocalVolumeProvider().create(props)  # and the engine was killed before it wrote that down
    made = LocalVolumeProvider().create(props)
    others = LocalVolumeProvider().create({**props, "volume": "other"})

    assert (made.outs or {})["adopted"] is False
    assert (others.outs or {})["adopted"] is True


def test_a_volume_that_cannot_be_removed_is_not_said_to_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "shelf"
    path.symlink_to(tmp_path, target_is_directory=True)

    with pytest.raises(OSError, match="symbolic link"):
        LocalVolumeProvider().delete(str(path), {"path": str(path), "adopted": False})

    assert tmp_path.is_dir()
