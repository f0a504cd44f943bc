"""Searches in logs of a cluster's run volume: the file server looks for texts beside them."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runtime.control.cluster_source import ClusterSource
from runtime.control.log_search import needles, scan
from runtime.control.log_search.needles import needles_of, rarest
from runtime.control.log_search.patterns import compile_wanted
from runtime.control.requests import LogQuery
from runtime.control.run_reads.run_logs import read_logs
from runtime.control.run_source import FolderSource, RunSource
from runtime.control.run_sources import RunFolder
from runtime.launch import files
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.observe.log_filter import LineFilter
from tests.runtime.control.reading.files_proxy import run_files
from tests.runtime.control.reading.run_files import NOON, RUN_ID, run_directory, stored_run

SEARCHES = [
    LogQuery(search="needle"),
    LogQuery(search="needle", level="ERROR"),
    LogQuery(search="ne\N{LATIN SMALL LETTER E WITH ACUTE}dle"),
    LogQuery(search="\N{REPLACEMENT CHARACTER}"),
    LogQuery(search=r"(?i)oom|exception|fail(ed|ure)", is_regex=True),
    LogQuery(search=r"(?i)oom|exception", is_regex=True, num_lines=3),
    LogQuery(search=r"^ERROR.*\d$", is_regex=True),
    LogQuery(search=r"step \d+ needle", is_regex=True, level="WARNING"),
    LogQuery(search=r"\d{4}", is_regex=True),
    LogQuery(level="ERROR", num_lines=5),
]
LINES = [
    b"INFO step 12 reward 0.5",
    b"ERROR failed at 1234",
    b"  at line 7 needle",
    b"INFO nee\x1b[31mdle\x1b[0m in colour",
    b"WARNING step 3 nee\0dle",
    b"50%| bar\r100%| needle of a bar",
    b"needle that a bar hides\r100%|",
    "n\u00e9edle ne\u00e9dle".encode(),
    b"broken \xff utf-8",
    b"DEBUG OutOfMemory OOM",
    b'{"level": "error", "message": "json oOm"}',
    b"",
]


@pytest.mark.parametrize(
    ("wanted", "texts", "folds"),
    [
        (LineFilter(search="Needle in"), [b"Needle in"], False),
        (LineFilter(search=r"loss \d+ Hay", is_regex=True), [b"loss "], False),
        (LineFilter(search="(?i)oom|failed", is_regex=True), [b"oom", b"failed"], True),
        (LineFilter(search="^ERROR", is_regex=True), [b"ERROR"], False),
        (LineFilter(search="(?i)no \u00e9", is_regex=True), [b"no "], True),
    ],
)
def test_texts_of_which_a_wanted_line_holds_one(
    wanted: LineFilter, texts: list[bytes], folds: bool
) -> None:
    found = needles_of(compile_wanted(wanted))[0]

    assert sorted(found.texts) == sorted([*texts, b"\x1b", b"\r", b"\0"])
    assert found.folds is folds


@pytest.mark.parametrize(
    "wanted",
    [
        LineFilter(),
        LineFilter(level="ERROR"),
        LineFilter(search="ab"),
        LineFilter(search="a\N{REPLACEMENT CHARACTER}b"),
        LineFilter(search=r"\d{12}", is_regex=True),
        LineFilter(search="[a-z]+nowhere|..", is_regex=True),
        LineFilter(search="|".join(f"{n}{n}{n}" for n in range(30, 50)), is_regex=True),
    ],
)
def test_nothing_is_looked_for_where_no_few_texts_tell(wanted: LineFilter) -> None:
    assert needles_of(compile_wanted(wanted)) == ()


def test_the_rarest_texts_are_looked_for_and_none_that_are_everywhere() -> None:
    wanted = LineFilter(search=r"common \d+ rare", is_regex=True)
    known = needles_of(compile_wanted(wanted))
    common = b"a common line\n" * 10_000

    found = rarest(known, common)

    assert found is not None
    assert found.texts[0] == b" rare"
    assert rarest(known, common + b"a rare line\n" * 10) is None
    assert rarest((), common) is None


@dataclass(kw_only=True)
class Searched:
    """A run on a cluster, whose log is searched on its volume and through the file server."""

    path: Path
    there: RunSource
    asked: list[tuple[str, int]] = field(default_factory=list)

    def write(self, data: bytes) -> None:
        """Write the trainer's log."""
        log = run_directory(self.path).logs(1) / "trainer.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(data)

    def search(self, query: LogQuery, *, is_here: bool = False, is_live: bool = True) -> str:
        """Return what a request gets; `is_here`: from the folder, as it is."""
        here = FolderSource(run_directory(self.path).path)
        source = here if is_here else self.there
        folder = RunFolder(source=source, is_live=is_live, is_local=False)
        asked = LogQuery(**{**_fields(query), "component": "trainer"})
        return read_logs(stored_run(self.path), asked, folder, now=NOON).text


def _fields(query: LogQuery) -> dict[str, object]:
    return {name: getattr(query, name) for name in query.__dataclass_fields__}


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Searched]:
    """Serve a run's directory."""
    with run_files(tmp_path) as (client, api):
        made = Searched(path=tmp_path, there=ClusterSource(client, RUN_ID))
        plain: Callable[..., object] = api.proxy

        def proxy(pod: str, port: int, path: str, **kwargs: dict[str, str]) -> object:
            response = plain(pod, port, path, **kwargs)
            size = int(response.headers["Content-Length"])  # type: ignore[attr-defined]  # httpx's
            made.asked.append((path.split("/")[0], size))
            return response

        monkeypatch.setattr(api, "proxy", proxy)
        yield made


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a log of kilobytes have many blocks and spans."""
    monkeypatch.setattr(files, "_FIND_BLOCK", 512)
    monkeypatch.setattr(files, "_MIN_SPAN", 16)
    monkeypatch.setattr(files, "_MAX_SPANS", 5)
    monkeypatch.setattr(scan, "_READ_AT_ONCE", 64)
    monkeypatch.setattr(scan, "_FIRST_BLOCK", 256)
    monkeypatch.setattr(needles, "EACH_BYTES", 0)  # however many there are
    monkeypatch.setattr(scan, "MAX_LINE_BYTES", 1 << 20)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(6))
def test_a_search_finds_what_a_search_of_the_folder_finds(
    searched: Searched, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # a C library without memmem
        monkeypatch.setattr(files, "_MEMMEM", None)
    chance = random.Random(seed)
    lines = [chance.choice(LINES) for _ in range(400)]
    lines += [b"x" * chance.choice([10, 700, 3000]) + b" needle" for _ in range(5 * seed)]
    chance.shuffle(lines)
    searched.write(b"\n".join(lines) + chance.choice([b"", b"\n"]))

    for query in SEARCHES:
        for is_live in (True, False):
            here = searched.search(query, is_here=True, is_live=is_live)
            assert searched.search(query, is_live=is_live) == here, query
    assert {"find", "files"} <= {verb for verb, _ in searched.asked}


def test_a_rare_text_of_a_long_log_is_found_without_sending_the_log(searched: Searched) -> None:
    line = b"2026-12-01 12:00:00 INFO step 17 reward 0.25 tokens 1234\n"
    searched.write(line * 100_000 + b"ERROR needle\n" + line * 400_000)

    assert searched.search(LogQuery(search="needle")) == "ERROR needle\n"
    assert searched.search(LogQuery(search="(?i)Needle|oom", is_regex=True)) == "ERROR needle\n"
    assert searched.search(LogQuery(search="nowhere")) == ""

    assert sum(size for _, size in searched.asked) < 12 << 20  # of 85 MiB in three searches


def test_a_line_longer_than_what_is_read_at_once_is_searched(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_READ_AT_ONCE", 64)
    searched.write(b"one needle\n" + b"y" * (9 << 20) + b" needle\n" + b"INFO last\n" * 20_000)
    query = LogQuery(search="needle")

    assert searched.search(query) == searched.search(query, is_here=True)
    assert searched.search(query).startswith("one needle\n")


def test_a_file_server_of_an_earlier_release_is_read(
    searched: Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_READ_AT_ONCE", 64)
    monkeypatch.setattr(RunFiles, "find", lambda *_, **__: None)  # as of an answer of 404
    searched.write(b"one needle\n" + b"INFO last\n" * 50_000)

    assert searched.search(LogQuery(search="needle")) == "one needle\n"
