"""The file server as a real process: ranges, tails, listings, and that no path leaves a run."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from runtime.launch import files
from tests.waiting import wait_for

RUN = "run-abc"
TOKEN = "t0ken-of-the-test"


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """A running server and the folder of its run."""

    url: str
    run: Path
    pid: int

    def get(self, path: str, *, token: str | None = TOKEN, span: str = "") -> httpx.Response:
        headers = {"X-Paddock-Token": token} if token is not None else {}
        if span:
            headers["Range"] = f"bytes={span}"
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=30)

    def raw(self, path: str) -> int:
        """Return the status of a path that no client would send as it stands."""
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            request = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Paddock-Token: {TOKEN}\r\n\r\n"
            connection.sendall(request.encode("latin-1"))
            return int(connection.makefile("rb").readline().split()[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("volumes")
    for name in ("first", "second"):
        (folder / name / "runs").mkdir(parents=True)
    run = folder / "second" / "runs" / RUN
    (run / "logs").mkdir(parents=True)
    (folder / "first" / "runs" / "other-run").mkdir()
    (folder / "first" / "runs" / "other-run" / "secret.txt").write_text("of another run")
    (folder / "secret.txt").write_text("out of the volume")
    (folder / "token").write_text(f"{TOKEN}\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-u", files.__file__, "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--root", str(folder / "first"), "--root", str(folder / "second")]
    argv += ["--token-file", str(folder / "token")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
        made = Site(url=f"http://127.0.0.1:{port}", run=run, pid=process.pid)
        try:
            wait_for(lambda: _answers(made), timeout_s=30)
            yield made
        finally:
            process.terminate()
            assert process.wait(timeout=30) == 0


def _answers(site: Site) -> bool:
    try:
        return site.get("/healthz", token=None).status_code == 200
    except httpx.TransportError:
        return False


def test_a_file_is_served_whole_and_in_ranges(site: Site) -> None:
    (site.run / "metrics.jsonl").write_bytes(b"0123456789")

    whole = site.get(f"/files/{RUN}/metrics.jsonl")

    assert (whole.status_code, whole.content) == (200, b"0123456789")
    assert whole.headers["X-Paddock-Size"] == "10"
    for span, content, said in [
        ("2-4", b"234", "bytes 2-4/10"),
        ("7-", b"789", "bytes 7-9/10"),
        ("-2", b"89", "bytes 8-9/10"),
        ("0-99", b"0123456789", "bytes 0-9/10"),
    ]:
        part = site.get(f"/files/{RUN}/metrics.jsonl", span=span)
        assert (part.status_code, part.content) == (206, content)
        assert part.headers["Content-Range"] == said


def test_a_range_past_the_end_says_how_long_the_file_is(site: Site) -> None:
    (site.run / "short.txt").write_bytes(b"abc")

    answer = site.get(f"/files/{RUN}/short.txt", span="3-")

    assert answer.status_code == 416
    assert answer.headers["Content-Range"] == "bytes */3"


def test_an_empty_file_is_served(site: Site) -> None:
    (site.run / "empty.txt").touch()

    assert site.get(f"/files/{RUN}/empty.txt").content == b""
    assert site.get(f"/tail/{RUN}/empty.txt").content == b""


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], f"{TOKEN}x"])
def test_nothing_is_served_without_the_token(site: Site, token: str | None) -> None:
    (site.run / "a.txt").write_text("a")

    for path in (f"/files/{RUN}/a.txt", f"/list/{RUN}/", f"/tail/{RUN}/a.txt"):
        answer = site.get(path, token=token)
        assert answer.status_code == 401
        assert answer.content.startswith(b"X-Paddock-Token is missing or wrong")


def test_a_folder_is_listed_by_name(site: Site) -> None:
    folder = site.run / "listed"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.log").write_bytes(b"12345")
    (folder / "a.log").write_bytes(b"")

    found = json.loads(site.get(f"/list/{RUN}/listed").content)

    assert [(one["name"], one["size"], one["is_dir"]) for one in found if not one["is_dir"]] == [
        ("a.log", 0, False),
        ("b.log", 5, False),
    ]
    assert [one["name"] for one in found if one["is_dir"]] == ["sub"]
    assert abs(found[0]["mtime"] - (folder / "a.log").stat().st_mtime) < 1


def test_the_tail_begins_at_a_line_and_says_where(site: Site) -> None:
    lines = [f"line {number}\n".encode() for number in range(100_000)]
    (site.run / "logs" / "long.log").write_bytes(b"".join(lines))

    answer = site.get(f"/tail/{RUN}/logs/long.log?lines=3")

    assert answer.content == b"".join(lines[-3:])
    size = int(answer.headers["X-Paddock-Size"])
    assert int(answer.headers["X-Paddock-Offset"]) == size - len(answer.content)


def test_the_tail_of_an_unfinished_line_counts_it(site: Site) -> None:
    (site.run / "torn.log").write_bytes(b"one\ntwo\nthr")

    assert site.get(f"/tail/{RUN}/torn.log?lines=2").content == b"two\nthr"
    assert site.get(f"/tail/{RUN}/torn.log?lines=9").content == b"one\ntwo\nthr"


def test_a_line_longer_than_the_tail_is_cut_in_front(site: Site) -> None:
    (site.run / "wide.log").write_bytes(b"x" * 5_000_000 + b"end\n")

    answer = site.get(f"/tail/{RUN}/wide.log?lines=1")

    assert len(answer.content) == 4 * 1024 * 1024
    assert answer.content.endswith(b"xend\n")


def test_a_line_of_a_megabyte_and_every_byte_survive(site: Site) -> None:
    content = b"\xff\x00\r\n" + bytes(range(256)) + b"y" * 1_000_000 + b"\n"
    (site.run / "odd.log").write_bytes(content)

    assert site.get(f"/files/{RUN}/odd.log").content == content
    assert site.get(f"/tail/{RUN}/odd.log?lines=1").content.endswith(b"y\n")


@pytest.mark.parametrize(
    "path",
    [
        "/files/run-abc/../other-run/secret.txt",
        "/files/run-abc/../../../secret.txt",
        "/files/run-abc/%2e%2e/%2e%2e/secret.txt",
        "/files/run-abc/logs/../../other-run/secret.txt",
        "/files/run-abc/logs%2F..%2F..%2Fother-run%2Fsecret.txt",
        "/files/../secret.txt",
        "/files/..%2F..%2Fsecret.txt",
        "/files/run-abc//etc/passwd/../../../../secret.txt",
        "/files/run-abc/a%00b",
        "/list/..",
        "/list/run-abc/..",
    ],
)
def test_no_path_leaves_the_run(site: Site, path: str) -> None:
    assert site.raw(path) in {403, 404}


@pytest.mark.parametrize("target", ["../other-run", "/etc", "../../../secret.txt", "loop"])
def test_no_link_leaves_the_run(site: Site, target: str) -> None:
    link = site.run / "loop"
    link.unlink(missing_ok=True)
    link.symlink_to(target)

    for path in ("loop", "loop/passwd", "loop/secret.txt"):
        assert site.get(f"/files/{RUN}/{path}").status_code in {403, 404}
    assert site.get(f"/list/{RUN}/loop").status_code in {403, 404}


def test_a_link_within_the_run_is_followed(site: Site) -> None:
    (site.run / "checkpoints" / "step_2").mkdir(parents=True)
    (site.run / "checkpoints" / "step_2" / "note").write_text("two")
    (site.run / "checkpoints" / "newest").symlink_to("step_2")
    (site.run / "mounted").symlink_to("/paddock/run/checkpoints/../checkpoints/step_2")

    assert site.get(f"/files/{RUN}/checkpoints/newest/note").text == "two"
    assert site.get(f"/files/{RUN}/mounted/note").text == "two"


def test_a_run_that_is_a_link_is_no_run(site: Site) -> None:
    (site.run.parent / "linked-run").symlink_to(RUN)

    assert site.get("/list/linked-run/").status_code == 404


def test_a_pipe_or_a_folder_is_no_file(site: Site) -> None:
    os.mkfifo(site.run / "pipe")

    assert site.get(f"/files/{RUN}/pipe").status_code == 404
    assert site.get(f"/files/{RUN}/logs").status_code == 404
    assert site.get(f"/files/{RUN}/nothing").status_code == 404
    assert site.get("/files/no-such-run/a").status_code == 404


def test_many_readers_of_a_large_file_leave_memory_flat(site: Site) -> None:
    size = 32 * 1024 * 1024
    with (site.run / "large.bin").open("wb") as file:
        file.truncate(size)
    before = _resident_mib(site.pid)

    with ThreadPoolExecutor(20) as pool:
        sizes = list(
            pool.map(lambda _: len(site.get(f"/files/{RUN}/large.bin").content), range(20))
        )

    assert sizes == [size] * 20
    assert _resident_mib(site.pid) < before + 64


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2
