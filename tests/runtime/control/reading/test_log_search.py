"""The log search finds what the plain way finds, whatever the log holds, live or captured."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.control.captured_source import CapturedSource
from runtime.control.log_search import frames, scan, sieve
from runtime.control.log_search.patterns import DEFAULT_RANK, compile_wanted
from runtime.control.log_search.scan import file_blocks, last_lines
from runtime.control.log_search.text import MAX_LINE_BYTES, line_offsets, readable
from runtime.control.manifest import CapturedFile, Manifest
from runtime.control.run_capture.parts import Slice, write_part
from runtime.errors import SettingsError
from runtime.observe.log_filter import LEVELS, LineFilter
from tests.runtime.control.reading.lines import plain_lines, plain_search
from tests.runtime.control.reading.stores import DictSource, DictStore

HEADS = [
    b"12:00:00    INFO ",
    b"12:00:01 WARNING ",
    b"\x1b[31m12:00:02   ERROR\x1b[0m ",
    b"[rank 0] [rank0]: 12:00:03 DEBUG ",
    b"2026-11-29 12:00:04,123 | CRITICAL | ",
    b'{"timestamp": "2026-11-29T12:00:05Z", "level": "error", "message": "',
    b'{"level":"\\u0049NFO", "x": "',
    b"INFORMATION ",
    b"ERROR\xc3\xa9 ",
    b"",
    b"  at line 3: ",
    b" 10%|#   \r 20%|##  \r",
]
BODIES = [
    b"step 1 reward 0.5",
    b"Traceback (most recent call last):",
    b"caf\xc3\xa9 \xff\xfe half \xe2\x82",
    b"ste\x1b[1mp 2\x1b[0m",
    b"st\0ep",
    b'x"}',
    b"\xe2\x82\xac5",
    b"",
]
ENDS = [b"\n", b"\n", b"\n", b"\r\n", b"\r\r\n", b"\n\n"]
LOGS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(HEADS), st.sampled_from(BODIES), st.sampled_from(ENDS)),
        st.tuples(st.just(b""), st.binary(max_size=12), st.sampled_from(ENDS)),
    ),
    max_size=30,
).map(lambda rows: b"".join(b"".join(row) for row in rows))
SEARCHES = ["step", "p", "e", "\u20ac5", "caf\u00e9", "\ufffd", "reward 0.5", 'x"}', "a\nb", "."]
REGEXES = [
    "step \\d",
    "^step",
    "half .*$",
    "^$",
    "[^x]*reward",
    "(?i)TRACE",
    "\\bstep\\b",
    "a|e",
    "x*",
    "[ \t]+[^ \t]",
    "caf.",
    "\\Ast",
    "(?-m)^s",
    "st(ep)? ",
]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a short log have many blocks."""
    monkeypatch.setattr(scan, "_FIRST_BLOCK", 16)
    monkeypatch.setattr("runtime.control.log_search.block._WINDOW", 32)
    monkeypatch.setattr(frames, "FRAME_BYTES", 40)
    monkeypatch.setattr("runtime.control.run_capture.parts.TEXT_PART_BYTES", 150)
    monkeypatch.setattr("runtime.control.log_search.block._NEAR_LINES", 2)
    monkeypatch.setattr("runtime.control.log_search.patterns._WINDOW", 20)
    monkeypatch.setattr(sieve, "_CHUNK", 24)
    monkeypatch.setattr(sieve, "_SAMPLE", 24)
    monkeypatch.setattr(sieve, "_FEW_PLACES", 3)
    monkeypatch.setattr(sieve, "_LEAST_BLOCK", 1)


LOG = "logs/attempt_1/trainer.log"


def captured(data: bytes) -> CapturedSource:
    """Return a captured log."""
    store, source = DictStore(), DictSource({LOG: data})
    file = CapturedFile(size=len(data), mtime=0)
    while file.num_kept < len(data):
        rank = file.parts[-1].last_rank if file.parts else DEFAULT_RANK
        part = write_part(
            source,
            store,
            Slice(
                run_id="run-1",
                path=LOG,
                size=len(data),
                offset=file.num_kept,
                number=len(file.parts),
                first_rank=rank,
            ),
        )
        file = file.model_copy(update={"parts": (*file.parts, part)})
    time = datetime.fromtimestamp(0, UTC)
    manifest = Manifest(run_id="run-1", attempt=1, captured_at=time, files={LOG: file})
    return CapturedSource(store, manifest)


def captured_search(data: bytes, wanted: LineFilter, num_lines: int, start: int = 0) -> list[str]:
    """Return the last wanted lines of a captured log."""
    compiled = compile_wanted(wanted)
    blocks = captured(data).blocks(LOG, start, compiled)
    return [line.text for line in last_lines(blocks, compiled, num_lines)]


def search(data: bytes, wanted: LineFilter, num_lines: int) -> list[str]:
    """Return the last wanted lines of a log, as the server finds them."""
    blocks = file_blocks(lambda offset, size: data[offset : offset + size], 0, len(data))
    return [line.text for line in last_lines(blocks, compile_wanted(wanted), num_lines)]


@settings(max_examples=100, deadline=None)
@given(LOGS)
@example(b"\r\r\n\r\nx\r")
@example(b"")
def test_a_block_reads_as_its_lines_do(log: bytes) -> None:
    text = readable(log)

    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    assert [line.decode() for line in lines] == plain_lines(log)


@settings(max_examples=150, deadline=None)
@given(
    LOGS,
    st.none() | st.sampled_from(LEVELS),
    st.none() | st.sampled_from(SEARCHES),
    st.integers(1, 40),
)
def test_a_search_finds_what_the_plain_way_finds(
    log: bytes, level: str | None, text: str | None, num_lines: int
) -> None:
    wanted = LineFilter(level=level, search=text)

    assert search(log, wanted, num_lines) == plain_search(log, wanted, num_lines)


@settings(max_examples=150, deadline=None)
@given(LOGS, st.none() | st.sampled_from(LEVELS), st.sampled_from(REGEXES), st.integers(1, 40))
def test_a_regular_expression_finds_what_the_plain_way_finds(
    log: bytes, level: str | None, pattern: str, num_lines: int
) -> None:
    wanted = LineFilter(level=level, search=pattern, is_regex=True)
    plainly = LineFilter(level=level, search=pattern.replace("(?-m)", ""), is_regex=True)

    assert search(log, wanted, num_lines) == plain_search(log, plainly, num_lines)


@settings(max_examples=150, deadline=None)
@given(
    LOGS,
    st.none() | st.sampled_from(LEVELS),
    st.none() | st.sampled_from(SEARCHES) | st.sampled_from(REGEXES).map(lambda text: f"/{text}"),
    st.integers(1, 40),
)
def test_a_captured_log_gives_what_the_plain_way_finds(
    log: bytes, level: str | None, text: str | None, num_lines: int
) -> None:
    is_regex = text is not None and text.startswith("/")
    pattern = text.removeprefix("/") if text is not None else None
    wanted = LineFilter(level=level, search=pattern, is_regex=is_regex)
    plainly = LineFilter(
        level=level, search=pattern and pattern.replace("(?-m)", ""), is_regex=is_regex
    )

    found = captured_search(log, wanted, num_lines)

    assert found == plain_search(log, plainly, num_lines)


@settings(max_examples=80, deadline=None)
@given(LOGS, st.data())
def test_a_captured_log_begins_where_it_is_asked_to(log: bytes, data: st.DataObject) -> None:
    wanted = LineFilter(level="WARNING")
    start = data.draw(st.sampled_from(line_offsets(log)))
    live = file_blocks(lambda offset, size: log[offset : offset + size], start, len(log))

    assert captured_search(log, wanted, 99, start) == [
        line.text for line in last_lines(live, compile_wanted(wanted), 99)
    ]


def test_frames_without_the_text_are_not_read() -> None:
    lines = [b"INFO line %d %s\n" % (n, b"needle" if n == 500 else b"straw") for n in range(1000)]
    source, wanted = captured(b"".join(lines)), compile_wanted(LineFilter(search="needle"))

    blocks = list(source.blocks(LOG, 0, wanted))
    loud = list(source.blocks(LOG, 0, compile_wanted(LineFilter(level="ERROR"))))

    assert len(blocks) <= 3
    assert b"needle" in b"".join(block.load() for block in blocks)
    assert loud == []


@pytest.mark.parametrize("length", [-1, 0, 1, MAX_LINE_BYTES, 8 * MAX_LINE_BYTES + 5])
def test_a_very_long_line_is_cut_in_the_same_places(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    long = b"y" * (MAX_LINE_BYTES + length)
    log = b"INFO first\n" + long + b"\nERROR last\n" + long

    for wanted in (LineFilter(), LineFilter(level="error"), LineFilter(search="yy")):
        assert search(log, wanted, 100) == plain_search(log, wanted, 100)
        assert captured_search(log, wanted, 100) == plain_search(log, wanted, 100)


@settings(max_examples=80, deadline=None)
@given(LOGS)
def test_a_found_line_knows_where_it_begins(log: bytes) -> None:
    blocks = file_blocks(lambda offset, size: log[offset : offset + size], 0, len(log))

    found = last_lines(blocks, compile_wanted(LineFilter()), 1000)

    assert [line.offset for line in found] == line_offsets(log)[: len(found)]


@pytest.mark.parametrize("pattern", ["(", "(?=x)", "a{2000}", "(a)\\1", "x)|(y"])
def test_what_is_no_regular_expression_is_refused(pattern: str) -> None:
    with pytest.raises(SettingsError, match="no regular expression"):
        compile_wanted(LineFilter(search=pattern, is_regex=True))


def test_a_pattern_that_takes_others_for_ever_takes_no_time() -> None:
    log = b"a" * 30_000 + b"\n"

    # an engine that goes back and tries again would never come to its end
    assert search(log, LineFilter(search="(a*)*(a|aa)+b", is_regex=True), 10) == []
