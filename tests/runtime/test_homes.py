"""PADDOCK_HOME: made for its owner only, or named where it cannot be."""

import stat
from pathlib import Path

import pytest

from runtime.errors import SettingsError
from runtime.homes import make_home


def test_the_home_is_made_for_its_owner_only(tmp_path: Path) -> None:
    made = make_home({"PADDOCK_HOME": str(tmp_path / "a" / "home")})

    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")

    with pytest.raises(SettingsError) as refused:
        make_home({"PADDOCK_HOME": str(taken)})

    assert f"PADDOCK_HOME: {taken}: File exists (" in str(refused.value)
