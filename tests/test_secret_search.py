"""The search for a secret's value finds it in every form in which something may have kept it."""

import base64
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.control.log_search.frames import compress
from tests.secret_search import files_with_value, has_value

VALUE = "canary-4b1f07d2"
LINES = b"".join(b"line %d\n" % number for number in range(20_000))
HOLDING = LINES + b"token=" + VALUE.encode() + b"\n" + LINES


@pytest.mark.parametrize(
    "data",
    [
        HOLDING,
        HOLDING.hex().encode(),
        *(base64.b64encode(b"x" * offset + VALUE.encode() + b"tail") for offset in range(3)),
        gzip.compress(HOLDING),
        compress(HOLDING),
        compress(LINES) + compress(HOLDING),
        gzip.compress(LINES) + gzip.compress(HOLDING),
        gzip.compress(base64.b64encode(HOLDING)),
        compress(gzip.compress(HOLDING)),
        compress(HOLDING) + b"what follows is damaged",
    ],
)
def test_a_value_is_found(data: bytes) -> None:
    assert has_value(data, VALUE)
    assert not has_value(data, VALUE.replace("canary", "finch"))


@pytest.mark.parametrize("pack", [gzip.compress, compress])
def test_what_is_cut_off_is_read_up_to_there(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(HOLDING)

    assert has_value(packed[:-4], VALUE)
    assert not has_value(packed[:4], VALUE)


def test_a_captured_part_that_holds_a_value_is_found(tmp_path: Path) -> None:
    captured = tmp_path / "artifacts" / "run-1" / "text"
    captured.mkdir(parents=True)
    (captured / "0.zst").write_bytes(compress(LINES))
    (captured / "1.zst").write_bytes(compress(HOLDING))
    (tmp_path / "plain").write_bytes(HOLDING)
    (tmp_path / "link").symlink_to(tmp_path / "plain")

    assert VALUE.encode() not in (captured / "1.zst").read_bytes()
    assert set(files_with_value(tmp_path, VALUE)) == {captured / "1.zst", tmp_path / "plain"}


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="nothing in"):
        files_with_value(tmp_path, VALUE)
