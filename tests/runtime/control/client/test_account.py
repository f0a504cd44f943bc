"""`paddock login` and `whoami`, and which server and key a command takes."""

import json
import stat
from pathlib import Path

import pytest

from runtime.client.settings import choose_server, read_url
from runtime.errors import SettingsError
from tests.runtime.control.api.server import ApiServer, Person
from tests.runtime.control.client.command import Paddock

KEY = "pdk_canary"


@pytest.mark.control
def test_a_login_is_kept_for_the_commands_that_follow(
    paddock: Paddock, api: ApiServer, url: str, ada: Person, home: Path
) -> None:
    api.team("lab", ada.user)

    said = paddock("login", "--server", f"{url}/api/v1/", stdin=f"{ada.token}\n")
    who = paddock("whoami")
    as_json = paddock("whoami", "-o", "json").json()

    file = home / "client.json"
    assert said.code == 0
    assert said.out.startswith(f"Logged in to {url} as ada (ada@example.com).")
    assert ada.token not in said.out + said.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"server": url, "keys": {url: ada.token}}
    who_and_where = f"ada (ada@example.com), id {ada.user.user_id}, on {url}\n"
    assert who.out.startswith(f"{who_and_where}  balance $0.00\n")
    assert as_json["teams"][0]["name"] == "lab"
    assert paddock.train("list").out == "No runs found.\n"


@pytest.mark.control
def test_a_key_that_the_server_does_not_take_is_not_kept(
    paddock: Paddock, url: str, home: Path
) -> None:
    said = paddock("login", "--server", url, stdin=f"{KEY}\n")

    assert said.code == 6
    assert f"{url} does not take the API key of the prompt" in said.err
    assert "paddock key add" in said.err
    assert "paddock login" not in said.err  # which was just done
    assert KEY not in said.err
    assert not (home / "client.json").exists()


@pytest.mark.control
def test_a_wrong_key_of_the_environment_is_mended_there(
    paddock: Paddock, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_API_KEY", KEY)

    said = paddock("train", "list", "--server", url)

    assert said.code == 6
    assert "set PADDOCK_API_KEY to a valid one" in said.err  # it wins over a login


def test_a_server_that_is_away_is_said_so(
    paddock: Paddock, unused_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_API_KEY", KEY)
    monkeypatch.setattr("runtime.client.api._WAITS_S", (0.0,))

    said = paddock("train", "list", "--server", unused_url)

    assert said.code == 5
    assert f"{unused_url} cannot be reached" in said.err
    assert "is the server running" in said.err
    assert said.err.count("\n") == 1


def test_no_server_and_no_key_are_said_so(paddock: Paddock) -> None:
    nowhere = paddock("train", "list")
    keyless = paddock("train", "list", "--server", "http://127.0.0.1:1")

    assert (nowhere.code, keyless.code) == (2, 6)
    assert "paddock login" in nowhere.err
    assert "paddock login --server http://127.0.0.1:1" in keyless.err


def test_a_key_goes_to_no_other_server(home: Path) -> None:
    keep_file(home, {"server": "https://one", "keys": {"https://one": KEY}})
    environ = {"PADDOCK_HOME": str(home)}

    kept = choose_server(None, environ)

    assert (kept.url, kept.api_key) == ("https://one", KEY)
    assert KEY not in repr(kept)
    with pytest.raises(Exception, match="no API key for https://two"):
        choose_server("https://two", environ)
    with pytest.raises(Exception, match="no API key for https://two"):
        choose_server(None, {**environ, "PADDOCK_SERVER": "https://two"})
    named = choose_server("https://two", {**environ, "PADDOCK_API_KEY": "pdk_two"})
    assert named.api_key == "pdk_two"


def test_a_file_that_others_read_or_wrote_is_refused(home: Path) -> None:
    path = keep_file(home, {"server": "https://one", "keys": {"https://one": KEY}})
    path.chmod(0o640)

    with pytest.raises(SettingsError, match="chmod 600"):
        choose_server(None, {"PADDOCK_HOME": str(home)})

    path.chmod(0o600)
    path.write_text(f'{{"server": 1, "keys": "{KEY}"')
    with pytest.raises(SettingsError, match="paddock login") as refused:
        choose_server(None, {"PADDOCK_HOME": str(home)})
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8899", "http://127.0.0.1:8899"),
        ("https://paddock.example/", "https://paddock.example"),
        (" https://paddock.example/rl/api/v1/ ", "https://paddock.example/rl"),
    ],
)
def test_an_address_loses_what_the_client_adds(text: str, url: str) -> None:
    assert read_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "paddock.example",
        "ftp://x",
        "http://",
        "http://x:port",
        "http://u:p@x",
        "http://x?y=1",
        "http://a b",
        "http://a..b",
        "http://x:0",
    ],
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--server"):
        read_url(text)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "\u00e9"])
def test_a_key_that_no_header_carries_is_refused(home: Path, key: str) -> None:
    keep_file(home, {"server": "https://one", "keys": {"https://one": key}})

    with pytest.raises(SettingsError, match="API key"):
        choose_server(None, {"PADDOCK_HOME": str(home)})


def keep_file(home: Path, data: object) -> Path:
    """Write the file of a login."""
    home.mkdir()
    path = home / "client.json"
    path.touch(0o600)
    path.write_text(json.dumps(data))
    return path
