"""`paddock train FILE`: what is sent, what is printed, and what a lost answer leaves."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.control.store.run_lists import RunFilter
from runtime.states import RunState
from tests.runtime.control.api.fakes import FakeDispatcher
from tests.runtime.control.api.server import ApiServer, Person
from tests.runtime.control.client.command import Paddock
from tests.runtime.control.client.conftest import SEED
from tests.runtime.control.prime.conftest import listening

pytestmark = pytest.mark.control

CANARY = "hunter2-canary"


def dispatcher(api: ApiServer) -> FakeDispatcher:
    """Return the dispatcher behind the API."""
    found = api.services.dispatcher
    assert isinstance(found, FakeDispatcher)
    return found


def run_ids(api: ApiServer, ada: Person) -> list[str]:
    """Return the runs that are stored."""
    found = api.services.runs.page(RunFilter(visible_to=ada.user), offset=0, limit=10)
    return [run.run_id for run in found.runs]


def test_a_file_is_dispatched_as_it_stands(as_ada: Paddock, api: ApiServer, url: str) -> None:
    said = as_ada.train(str(SEED))

    (request,) = dispatcher(api).seen
    (run,) = as_ada.train("list", "-o", "json").json()["runs"]
    assert request.config_text == SEED.read_text()
    assert said.out.splitlines() == [
        f"Dispatched hosted run {run['id']}",
        "On-demand, $2.50/GPU-hour, about $5.00/hour; billed while its pods run",
        "",
        "Monitor run at:",
        f"  {url}/dashboard/training/{run['id']}",
    ]


def test_a_script_for_prime_needs_no_other_flags(
    as_ada: Paddock, api: ApiServer, run_id: str
) -> None:
    api.change(run_id, {"state": RunState.PAUSED})

    as_ada.train(str(SEED), "-y")
    as_ada.train("resume", run_id, "--yes")

    assert "FILE.toml" in as_ada.train("-h").out
    assert "--tail" in as_ada.train("logs", "-h").out


def test_every_flag_reaches_the_server(
    as_ada: Paddock, api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_file = tmp_path / "keys.env"
    env_file.write_text(f"JUDGE_KEY={CANARY}-file\nHF_TOKEN=lost\n")
    env_file.chmod(0o600)
    monkeypatch.setenv("HF_TOKEN", f"{CANARY}-shell")
    flags = ["-e", "HF_TOKEN", "-e", f"OPENAI_API_KEY={CANARY}-inline", "--env-file", str(env_file)]
    flags += ["--image-tag", "v0.5.1", "--gpu-type", "H200_141GB", "--volume", "results"]
    flags += ["--environment", "math-env==1.0", "--environment", "owner/other", "--max-spend", "25"]
    assert as_ada("volumes", "create", "results").code == 0

    said = as_ada.train(*flags, str(SEED), "-o", "json")

    (request,) = dispatcher(api).seen
    assert request.secrets == {
        "HF_TOKEN": f"{CANARY}-shell",
        "JUDGE_KEY": f"{CANARY}-file",
        "OPENAI_API_KEY": f"{CANARY}-inline",
    }
    assert (request.image_tag, request.gpu_type) == ("v0.5.1", "H200_141GB")
    assert (request.volume, request.max_spend_microusd) == ("results", 25_000_000)
    assert request.environments == ("math-env==1.0", "owner/other")
    run = said.json()["run"]
    assert run["gpuType"] == "H200_141GB"
    assert run["onDemand"] is True
    assert run["url"].endswith(f"/dashboard/training/{run['runId']}")
    assert "-e OPENAI_API_KEY=... stands in" in said.err
    assert "HF_TOKEN" not in said.err
    assert CANARY not in said.out + said.err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["-e", "NOT_SET"], "NOT_SET: not set in this shell"),
        (["-e", f"1BAD={CANARY}", "-e", f"PATH={CANARY}"], "PATH is reserved"),
        (["--env-file", "open.env"], "chmod 600"),
        (["--max-spend", "ten"], "no amount of dollars"),
        (["--max-spend", "-1"], "under zero"),
        (["--max-spend", "9007199255"], "9007199255 is too much (at most $9,007,199,254.74"),
        (["--environment", f"git+https://{CANARY}@host/x.git"], "environments[0]: it holds a user"),
    ],
)
def test_what_this_machine_can_judge_is_refused_without_a_request(
    as_ada: Paddock, api: ApiServer, tmp_path: Path, flags: list[str], words: str
) -> None:
    (tmp_path / "open.env").write_text(f"KEY={CANARY}\n")
    (tmp_path / "open.env").chmod(0o644)

    said = as_ada("train", str(SEED), *flags)

    assert said.code == 2
    assert words in said.err
    assert CANARY not in said.out + said.err
    assert not dispatcher(api).seen


def test_a_wrong_config_is_refused_with_every_key(
    as_ada: Paddock, api: ApiServer, ada: Person, tmp_path: Path
) -> None:
    text = SEED.read_text().replace("seq_len = 2048", 'seq_len = "long"')
    (tmp_path / "rl.toml").write_text(f"{text}\n[trainer.nonsense]\n")

    said = as_ada("train", "rl.toml")
    as_json = as_ada("train", "rl.toml", "--output", "json")

    assert said.code == as_json.code == 2
    assert said.err.startswith("error: rl.toml: 2 problems\n")
    assert "  seq_len: " in said.err
    assert "  trainer.nonsense: " in said.err
    assert as_json.json()["error"] == "config"
    assert [problem["loc"] for problem in as_json.json()["detail"]] == [
        ["seq_len"],
        ["trainer", "nonsense"],
    ]
    assert not run_ids(api, ada)


def test_a_refusal_has_its_code_and_reason(as_ada: Paddock, tmp_path: Path) -> None:
    deployment = 'type = "multi_node"\nnum_train_nodes = 20\nnum_infer_nodes = 20\n'
    text = SEED.read_text().replace("num_train_gpus = 1\nnum_infer_gpus = 1\n", deployment)
    (tmp_path / "rl.toml").write_text(text)

    said = as_ada("train", "rl.toml", "-o", "json")

    (problem,) = said.json()["detail"]
    assert said.code == 2
    assert said.json()["error"] == "refused"
    assert "320" in problem["msg"]
    assert problem["code"] != "invalid"


def test_a_word_that_is_no_file_and_no_command_says_so(as_ada: Paddock) -> None:
    said = as_ada("train", "lsit")

    assert said.code == 2
    assert "no file lsit" in said.err
    assert "paddock train list?" in said.err


def test_the_same_command_twice_makes_two_runs(
    as_ada: Paddock, api: ApiServer, ada: Person, home: Path
) -> None:
    as_ada.train(str(SEED))
    as_ada.train(str(SEED))

    assert len(run_ids(api, ada)) == 2
    assert os.listdir(home / "dispatches") == []


def test_a_lost_answer_makes_no_second_run(
    paddock: Paddock, api: ApiServer, ada: Person, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_API_KEY", ada.token)
    monkeypatch.setattr("runtime.client.api._WAITS_S", (0.0, 0.0))
    with listening(api) as url, cutting(url, num_cut=4) as cut:
        lost = paddock("train", str(SEED), "--server", cut)  # three tries, each without an answer
        num_kept = len(os.listdir(home / "dispatches"))
        again = paddock("train", str(SEED), "--server", cut)  # the first is cut, the second not

    (run_id,) = run_ids(api, ada)
    assert lost.code == 5
    assert "the same command again makes no second run" in lost.err
    assert num_kept == 1
    assert again.code == 0
    assert "An earlier dispatch of this got no answer" in again.err
    assert f"Dispatched hosted run {run_id}" in again.out
    assert len(dispatcher(api).seen) == 5
    assert os.listdir(home / "dispatches") == []


@contextmanager
def cutting(url: str, *, num_cut: int) -> Iterator[str]:
    """Stand before a server and pass requests on; the first ones get no answer."""
    host, port = url.removeprefix("http://").split(":")
    listener = socket.create_server(("127.0.0.1", 0))

    def pass_on() -> None:
        for number in range(10**6):
            try:
                incoming, _ = listener.accept()
            except OSError:
                return
            with incoming, socket.create_connection((host, int(port))) as server:
                server.sendall(read_message(incoming))
                answer = read_message(server)  # by now the run is stored
                if number >= num_cut:
                    incoming.sendall(answer)

    thread = threading.Thread(target=pass_on, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(30)


def read_message(incoming: socket.socket) -> bytes:
    """Return a request or an answer, head and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += incoming.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(fields.get(b"content-length", 0)):
        body += incoming.recv(65_536)
    return head + b"\r\n\r\n" + body
