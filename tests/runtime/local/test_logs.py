"""Logs are read by tail, time, level and search, and followed to their end."""

from pathlib import Path

import pytest

from runtime.errors import SettingsError
from runtime.observe.log_filter import LineFilter, filter_lines, level_of, parse_since, plain
from runtime.observe.logs import LogQuery, follow_log, read_log

NOW = 1_795_946_400.0  # 2026-11-29T10:00:00Z

LINES = [
    "10:00:00    INFO Step 1 | Reward 0.4",
    "10:00:01   ERROR a tool failed",
    "Traceback (most recent call last):",
    "ValueError: no",
    '{"timestamp": "x", "level": "warning", "message": "slow"}',
    "10:00:02   DEBUG detail",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", NOW - 600),
        ("900", NOW - 900),
        ("1d", NOW - 86_400),
        ("2026-11-29T10:00:00Z", NOW),
        ("2026-11-29T12:00:00+02:00", NOW),
        ("2026-11-29T10:00:00", NOW),
    ],
)
def test_since_is_read_in_every_form(text: str, expected: float):
    assert parse_since(text, now=NOW) == expected


def test_a_since_that_is_no_time_is_refused():
    with pytest.raises(SettingsError, match="is not a time"):
        parse_since("yesterday", now=NOW)


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("10:00:00    INFO Step 1", "INFO"),
        ("2026-11-29 10:00:00,123 - WARNING - slow", "WARNING"),
        ("[2026-11-29 10:00:00] ERROR: x", "ERROR"),
        ("INFO:     Started server process", "INFO"),
        ("WARN x", "WARNING"),
        ("[rank0]: 10:00:00 | ERROR | x", "ERROR"),
        ('{"level": "error"}', "ERROR"),
        ("an INFO in the middle", None),
        ('{"level"', None),
    ],
)
def test_a_line_states_its_level(line: str, level: str | None):
    assert level_of(line) == level


def test_a_traceback_belongs_to_its_error():
    found = list(filter_lines(LINES, LineFilter(level="error")))

    assert found == LINES[1:4]


def test_search_is_literal_unless_it_is_a_regex():
    assert list(filter_lines(LINES, LineFilter(search="Reward 0.4"))) == LINES[:1]
    assert list(filter_lines(LINES, LineFilter(search="R.ward", is_regex=True))) == LINES[:1]
    assert list(filter_lines(LINES, LineFilter(search="R.ward"))) == []
    with pytest.raises(SettingsError, match="no regular expression"):
        list(filter_lines(LINES, LineFilter(search="(", is_regex=True)))


def test_colours_and_overwritten_progress_are_not_shown():
    assert plain("\x1b[32mINFO\x1b[0m x") == "INFO x"
    assert plain("10%\r20%\rdone\r") == "done"


def test_the_tail_of_a_log_with_torn_bytes_is_text(tmp_path: Path):
    log = tmp_path / "a.log"
    log.write_bytes(b"one\n\xff\xe2\x82\ntwo\0\nlast")

    assert read_log(log, LogQuery(tail=3)) == ["\ufffd\ufffd", "two", "last"]


def test_since_starts_at_the_index(tmp_path: Path):
    log = tmp_path / "a.log"
    log.write_text("old\nsecond\nnew\n")
    (tmp_path / "a.log.idx").write_text("100.0 0\n160.0 4\n200.0 11\n")

    assert read_log(log, LogQuery(since=150.0)) == ["second", "new"]
    assert read_log(log, LogQuery(since=160.9)) == ["second", "new"]
    assert read_log(log, LogQuery(since=161.1)) == ["new"]
    assert read_log(log, LogQuery(since=900.0)) == []


@pytest.mark.parametrize("torn", ["16", "160.0160.1 4", "160.0 4170.0 8", "160.0 \0\0", "16 4 4"])
def test_a_row_of_the_index_that_a_full_disk_tore_is_left_out(tmp_path: Path, torn: str):
    log = tmp_path / "a.log"
    log.write_text("old\nsecond\nnew\n")
    (tmp_path / "a.log.idx").write_bytes(f"100.0 0\n{torn}\n".encode() + b"\xff\n200.0 11\n")

    assert read_log(log, LogQuery(since=150.0)) == ["new"]


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path):
    assert read_log(tmp_path / "a.log", LogQuery(since=1.0)) == []


def test_following_shows_every_line_once(tmp_path: Path):
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\nto")
    steps = iter([("rn", False), ("\nthree\n", False), ("last", True)])

    def is_over() -> bool:
        text, over = next(steps)
        with log.open("a") as file:
            file.write(text)
        return over

    shown = list(follow_log(log, LogQuery(tail=1), is_over=is_over))

    assert shown == ["two", "torn", "three", "last"]
