"""Logs are read and followed from the run directory, whatever is in them; else by the API."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from runtime.errors import NotFoundError
from runtime.kubernetes_api import KubernetesApi
from runtime.observe.kubernetes.logs import ClusterLogs, LogPlace, split_lines
from runtime.observe.kubernetes.status_files import ends_by_files, launched_by_files
from runtime.observe.log_filter import LineFilter
from runtime.observe.logs import LogQuery
from tests.runtime.observe_kubernetes.run_volume import RunVolume

PATH = "logs/attempt_1/trainer.log"
PLACE = LogPlace(run_id="run-one", path=PATH, pod="trainer-x")


class PodLogs:
    """The API's pod logs: one, in pieces; what was asked for is kept."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.asked: dict[str, Any] = {}

    def pod_log(self, name: str, **asked: object) -> Iterator[bytes]:
        self.asked = {"name": name, **asked}
        yield from self.pieces


def logs(volume: RunVolume, api: PodLogs | None = None, said: list[str] | None = None):
    stand_in = cast("KubernetesApi", api or PodLogs())  # it has the one method that logs call
    return ClusterLogs(stand_in, volume, (said if said is not None else []).append)


def volume(data: bytes, index: bytes = b"") -> RunVolume:
    made = RunVolume()
    made.files[f"run-one/{PATH}"] = data
    if index:
        made.files[f"run-one/{PATH}.idx"] = index
    return made


NOISY = (
    b"10:00:00 INFO plain\n"
    b"\x1b[32m10:00:01 WARNING coloured\x1b[0m\n"
    b"  1%\r 50%\r100%\n"
    b"torn \xe2\x82 utf-8 \x00 nul\n"
    b"10:00:02 ERROR last\n"
)


def test_a_noisy_log_is_readable():
    assert logs(volume(NOISY)).read(PLACE, LogQuery()) == [
        "10:00:00 INFO plain",
        "10:00:01 WARNING coloured",
        "100%",
        "torn \ufffd utf-8  nul",
        "10:00:02 ERROR last",
    ]


def test_lines_of_a_megabyte_survive():
    long = b"x" * (3 << 20)

    lines = logs(volume(b"a\n" + long + b"\nb\n")).read(PLACE, LogQuery())

    assert lines[0] == "a"
    assert lines[-1] == "b"
    assert sum(len(line) for line in lines) == len(long) + 2


def test_a_character_between_two_pieces_is_whole():
    assert list(split_lines([b"eur\xe2", b"\x82\xac\nno end"])) == ["eur\u20ac", "no end"]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (LogQuery(tail=1), ["10:00:02 ERROR last"]),
        (LogQuery(tail=0), []),
        (LogQuery(wanted=LineFilter(level="error")), ["10:00:02 ERROR last"]),
        (LogQuery(tail=1, wanted=LineFilter(search="plain")), ["10:00:00 INFO plain"]),
        (LogQuery(since=2_000.0), ["10:00:02 ERROR last"]),
        (LogQuery(since=9_000.0), []),
    ],
)
def test_lines_are_chosen(query: LogQuery, wanted: list[str]):
    start = NOISY.index(b"10:00:02")
    index = b"1000.000 0\n2000.000 %d\n" % start

    assert logs(volume(NOISY, index)).read(PLACE, query) == wanted


def test_a_log_that_is_not_there_yet_has_no_lines():
    assert logs(RunVolume()).read(PLACE, LogQuery()) == []


def test_a_followed_log_gives_each_line_once_and_ends_with_the_run(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("runtime.observe.kubernetes.logs._FOLLOW_S", 0.0)
    made = volume(b"one\ntw")
    script = iter([b"o\nthree\n", b"", b"fou", b"r\n", b"no end"])

    def is_over() -> bool:
        piece = next(script, None)
        if piece is not None:
            made.files[f"run-one/{PATH}"] += piece
        return piece is None

    followed = list(logs(made).follow(PLACE, LogQuery(), is_over=is_over))

    assert followed == ["one", "two", "three", "four", "no end"]


def test_a_file_server_that_is_away_for_a_while_loses_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("runtime.observe.kubernetes.logs._FOLLOW_S", 0.0)
    made = volume(b"one\n")
    rounds = iter(range(6))

    def is_over() -> bool:
        number = next(rounds)
        made.is_away = number in {1, 2}
        made.files[f"run-one/{PATH}"] += b"%d\n" % number
        return number == 5

    followed = list(logs(made).follow(PLACE, LogQuery(), is_over=is_over))

    assert followed == ["one", "0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("is_followed", [True, False])
def test_the_api_stands_in_for_the_file_server(is_followed: bool):
    away = RunVolume()
    away.is_away = True
    api, said = PodLogs(b"first\nsec", b"ond\n"), []
    reader = logs(away, api, said)
    query = LogQuery(tail=7)

    lines = (
        list(reader.follow(PLACE, query, is_over=lambda: True))
        if is_followed
        else reader.read(PLACE, query)
    )

    assert lines == ["first", "second"]
    assert api.asked["name"] == "trainer-x"
    assert api.asked["tail"] == 7
    assert api.asked["follow"] is is_followed
    assert "reading the log of pod trainer-x instead" in said[0]


@pytest.mark.parametrize("is_followed", [True, False])
def test_the_api_stands_in_where_the_run_is_on_a_volume_that_the_server_does_not_show(
    is_followed: bool,
):
    api, said = PodLogs(b"first\nsec", b"ond\n"), []
    reader = logs(RunVolume(), api, said)

    lines = (
        list(reader.follow(PLACE, LogQuery(), is_over=lambda: True))
        if is_followed
        else reader.read(PLACE, LogQuery())
    )

    assert lines == ["first", "second"]
    assert "that of its volume does not run" in said[0]


def test_a_pod_without_a_log_yet_is_followed_in_the_files(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("runtime.observe.kubernetes.logs._FOLLOW_S", 0.0)
    made = RunVolume()
    rounds = iter([False, True])

    def is_over() -> bool:
        made.files[f"run-one/{PATH}"] = b"one\n"
        return next(rounds)

    assert list(logs(made).follow(PLACE, LogQuery(), is_over=is_over)) == ["one"]


def test_without_files_and_pod_nothing_can_be_read():
    away = RunVolume()
    away.is_away = True

    with pytest.raises(NotFoundError, match="the file server does not answer"):
        logs(away).read(LogPlace(run_id="run-one", path=PATH), LogQuery())


def test_after_a_destroy_the_status_files_tell_the_components():
    made = RunVolume()
    folder = "run-one/status/attempt_2"
    made.files[f"{folder}/env-train-math-7.json"] = (
        b'{"component": "env-train-math-7", "log": "envs/train/Math 7.log"}'
    )
    made.files[f"{folder}/trainer-0.json"] = b'{"component": "trainer-0", "log": "trainer.log"}'
    made.files[f"{folder}/.trainer-0.json.tmp"] = b"{}"
    made.files[f"{folder}/broken.json"] = b"{"

    env, trainer = launched_by_files(made, "run-one", 2).pods

    assert (env.role, env.source, env.split, env.log) == (
        "env",
        "Math 7",
        "train",
        "envs/train/Math 7.log",
    )
    assert (trainer.component, trainer.role) == ("trainer-0", "trainer")


def test_after_a_destroy_the_status_files_tell_how_components_ended():
    made = RunVolume()
    folder = "run-one/status/attempt_1"
    made.files[f"{folder}/trainer-0.json"] = (
        b'{"component": "trainer-0", "outcome": "failed", "reason": "exited with code 3"}'
    )
    made.files[f"{folder}/router-0.json"] = b'{"component": "router-0", "outcome": null}'
    made.files[f"{folder}/broken.json"] = b"[]"

    assert ends_by_files(made, "run-one", 1) == {
        "trainer-0": ("failed", "exited with code 3"),
        "router-0": ("lost", ""),
    }
