"""What the wrapper holds of its peers while their status files cannot be read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.launch import wrapper


class Clock:
    """The wrapper's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def no_folder(folder: Path) -> None:
    folder.rename(folder.with_name("away"))


def unreadable_file(folder: Path) -> None:
    (folder / "inference-0.json").rename(folder.with_name("away"))
    (folder / "inference-0.json").mkdir()


def folder_again(folder: Path) -> None:
    folder.with_name("away").rename(folder)


def file_again(folder: Path) -> None:
    (folder / "inference-0.json").rmdir()
    folder.with_name("away").rename(folder / "inference-0.json")


def nothing(folder: Path) -> None:
    """The volume hangs: a look waits, then reads all."""


@pytest.mark.parametrize(
    ("goes", "comes_back", "num_looks"),
    [(no_folder, folder_again, 300), (unreadable_file, file_again, 300), (nothing, nothing, 1)],
)
def test_an_outage_of_the_volume_ages_no_peer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    goes: Callable[[Path], None],
    comes_back: Callable[[Path], None],
    num_looks: int,
):
    folder, clock = tmp_path / "status", Clock()
    folder.mkdir()
    monkeypatch.setattr(wrapper, "time", clock)
    (folder / "inference-0.json").write_text('{"end": null, "heartbeat": 1}')
    peers = wrapper.Peers(folder, "trainer-0")

    def reasons(num_looks: int, every_s: float) -> set[str]:
        found = set()
        for _ in range(num_looks):
            clock.now += every_s
            peers.look()
            found.add(peers.reason_to_end(60.0))
        return found

    assert reasons(10, 1.0) == {""}
    goes(folder)
    assert reasons(num_looks, 300.0 / num_looks) == {""}
    comes_back(folder)
    assert reasons(45, 1.0) == {""}
    assert reasons(10, 1.0) >= {"inference-0 gave no heartbeat for 60 s"}
