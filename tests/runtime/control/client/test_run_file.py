"""`paddock train FILE` with a file that names secrets, a source or the size of a volume."""

import os
from pathlib import Path

import pytest

from tests.runtime.control.api.fakes import FakeDispatcher
from tests.runtime.control.api.server import ApiServer
from tests.runtime.control.client.command import Paddock
from tests.runtime.control.client.conftest import SEED

pytestmark = pytest.mark.control

CANARY = "hunter2-canary"


def seen(api: ApiServer) -> list[dict[str, str]]:
    """Return the secrets of each dispatch that the server was asked for."""
    dispatcher = api.services.dispatcher
    assert isinstance(dispatcher, FakeDispatcher)
    return [dict(request.secrets) for request in dispatcher.seen]


def write(folder: Path, keys: str, **env_files: str) -> str:
    """Write the example with keys before it and files of secrets beside it; return its path."""
    folder.mkdir()
    (folder / "rl.toml").write_text(f"{keys}\n{SEED.read_text()}")
    for name, text in env_files.items():
        (folder / f"{name}.env").write_text(text)
        (folder / f"{name}.env").chmod(0o600)
    return str(folder / "rl.toml")


def test_files_of_secrets_are_read_beside_the_file_and_flags_win(
    as_ada: Paddock, api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"A": "ABCD", "B": "BCD", "C": "CD", "flag": "D"}
    texts = {
        one: "".join(f"KEY_{name}={CANARY}-{one}\n" for name in keys) for one, keys in names.items()
    }
    path = write(tmp_path / "runs", 'env_files = ["B.env", "C.env"]\nenv_file = "A.env"', **texts)
    monkeypatch.setenv("KEY_E", f"{CANARY}-shell")

    said = as_ada.train(path, "--env-file", "runs/flag.env", "-e", "KEY_E")

    assert seen(api) == [
        {
            **{f"KEY_{name}": f"{CANARY}-{name}" for name in "ABC"},
            "KEY_D": f"{CANARY}-flag",
            "KEY_E": f"{CANARY}-shell",
        }
    ]
    assert CANARY not in said.out + said.err


def test_a_file_of_secrets_that_cannot_be_used_is_named_with_its_field(
    as_ada: Paddock, api: ApiServer, tmp_path: Path
) -> None:
    keys = 'env_file = "gone.env"\nenv_files = ["fine.env", "open.env", "odd.env"]\nvolume = "new"'
    text = f"KEY={CANARY}\n"
    path = write(tmp_path / "runs", keys, fine=text, open=text, odd=f"KEY=1\n{CANARY}\n")
    (tmp_path / "runs" / "open.env").chmod(0o640)

    said = as_ada("train", path)

    lines = said.err.splitlines()
    assert said.code == 2
    assert lines[0] == f"error: {path}: 3 problems"
    assert lines[1].startswith(f"  env_file: env file {tmp_path}/runs/gone.env: ")
    assert lines[2] == (
        f"  env_files[1]: env file {tmp_path}/runs/open.env can be read by others "
        f"(chmod 600 {tmp_path}/runs/open.env)"
    )
    assert lines[3].startswith(f"  env_files[2]: env file {tmp_path}/runs/odd.env, line 2: ")
    assert CANARY not in said.out + said.err
    assert seen(api) == []
    assert "No volumes" in as_ada("volumes", "list").out


def test_a_value_that_prime_would_expand_is_warned_of(
    as_ada: Paddock, api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"KEY={CANARY}-${{HOME}}\nHF_TOKEN=${{HOME}}\nPRICE=$5\n"
    path = write(tmp_path / "runs", 'env_file = "a.env"', a=text)
    monkeypatch.setenv("HF_TOKEN", "t")

    said = as_ada.train(path, "-e", "HF_TOKEN")

    assert [line for line in said.err.splitlines() if "warning" in line] == [
        "warning: KEY holds a ${NAME}, which is taken as it stands: pass -e KEY"
    ]
    assert CANARY + os.environ["HOME"] not in str(seen(api))
    assert seen(api)[0]["KEY"] == f"{CANARY}-${{HOME}}"
    assert CANARY not in said.out + said.err


def test_another_source_is_refused_with_all_else_that_is_wrong_before_a_request(
    as_ada: Paddock, api: ApiServer, tmp_path: Path
) -> None:
    path = write(tmp_path / "runs", 'source_ref = "my-branch"\nvolume = "new"\nmax_stps = 3')

    said = as_ada("train", path)

    assert said.code == 2
    assert said.err.splitlines() == [
        f"error: {path}: 2 problems",
        "  source_ref: not served here (choose a build of prime-rl with image_tag)",
        "  max_stps: unknown key max_stps (did you mean max_steps?)",
    ]
    assert seen(api) == []
    assert "No volumes" in as_ada("volumes", "list").out


def test_the_api_refuses_another_source_by_field_too(api: ApiServer) -> None:
    text = f'source_ref = "my-branch"\n{SEED.read_text()}'

    status, answer = api.ask(
        "POST", "/training/runs", api.person("ada").token, json={"configText": text}
    )

    assert status == 422
    assert [one["loc"] for one in answer["problems"]] == [["source_ref"]]


@pytest.mark.parametrize("where", ["file", "flag"])
def test_the_size_of_no_volume_is_refused(
    as_ada: Paddock, api: ApiServer, tmp_path: Path, where: str
) -> None:
    path = write(tmp_path / "runs", 'volume_size = "1Ti"' if where == "file" else "")

    said = as_ada("train", path, *([] if where == "file" else ["--volume-size", "1Ti"]))

    assert said.code == 2
    assert "  volume_size: it is that of no volume (name the volume: --volume NAME" in said.err
    assert seen(api) == []
