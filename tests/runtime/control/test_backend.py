"""A backend or login of the user is respected; where there is neither, paddock makes its own."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.control.backend import backend_environment, file_backend
from runtime.control.locks import remove_torn_sidecars


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a person who has nothing of Pulumi yet."""
    return {"HOME": str(tmp_path), "PADDOCK_HOME": str(tmp_path / "paddock")}


def log_in(environ: dict[str, str], url: str) -> None:
    folder = Path(environ["HOME"]) / ".pulumi"
    folder.mkdir()
    (folder / "credentials.json").write_text(json.dumps({"current": url}))


def test_many_at_once_agree_on_one_passphrase(environ: dict[str, str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: backend_environment(environ), range(8)))

    paths = {Path(variables["PULUMI_CONFIG_PASSPHRASE_FILE"]) for variables in made}
    (path,) = paths
    assert len(path.read_text()) > 30
    assert {entry.name for entry in path.parent.iterdir()} == {"backend", "passphrase"}


def test_a_backend_and_a_private_passphrase_file_are_made_once(environ: dict[str, str]) -> None:
    first = backend_environment(environ)
    phrase = Path(first["PULUMI_CONFIG_PASSPHRASE_FILE"])

    assert stat.S_IMODE(phrase.stat().st_mode) == 0o600
    assert stat.S_IMODE(phrase.parent.stat().st_mode) == 0o700
    kept = phrase.read_text()
    assert backend_environment(environ) == first
    assert phrase.read_text() == kept
    assert file_backend(first) == Path(environ["PADDOCK_HOME"]) / "backend"


@pytest.mark.parametrize(
    ("name", "value"),
    [("PULUMI_BACKEND_URL", "s3://bucket"), ("PULUMI_ACCESS_TOKEN", "token")],
)
def test_a_backend_of_the_users_is_left_alone(
    environ: dict[str, str], name: str, value: str
) -> None:
    assert backend_environment({**environ, name: value}) == {}
    assert not Path(environ["PADDOCK_HOME"]).exists()


def test_a_login_is_left_alone(environ: dict[str, str]) -> None:
    log_in(environ, "https://api.example.com")

    assert backend_environment(environ) == {}
    assert file_backend(environ) is None


@pytest.mark.parametrize("name", ["PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE"])
def test_a_passphrase_of_the_users_is_left_alone(environ: dict[str, str], name: str) -> None:
    assert set(backend_environment({**environ, name: ""})) >= {"PULUMI_BACKEND_URL"}
    assert set(backend_environment({**environ, name: "x"})) == {"PULUMI_BACKEND_URL"}


def test_the_folder_of_a_file_backend_is_found_by_url_and_by_login(
    environ: dict[str, str], tmp_path: Path
) -> None:
    log_in(environ, f"file://{tmp_path}/logged-in")
    url = f"file://{tmp_path}/named?no_tmp_dir=true"

    assert file_backend(environ) == tmp_path / "logged-in"
    assert file_backend({**environ, "PULUMI_BACKEND_URL": url}) == tmp_path / "named"


def test_only_empty_sidecars_of_stacks_and_locks_are_removed(tmp_path: Path) -> None:
    stacks = tmp_path / ".pulumi" / "stacks" / "paddock"
    locks = tmp_path / ".pulumi" / "locks" / "organization" / "paddock" / "run-1"
    for folder in (stacks, locks):
        folder.mkdir(parents=True)
        (folder / "torn.json").write_text("{}")
        (folder / "torn.json.attrs").touch()
        (folder / "whole.json.attrs").write_text("{}")
    (stacks / "empty.json").touch()

    removed = remove_torn_sidecars(tmp_path)

    assert {path.parent for path in removed} == {stacks, locks}
    left = sorted(path.name for path in stacks.iterdir())
    assert left == ["empty.json", "torn.json", "whole.json.attrs"]


def test_the_backend_that_is_made_writes_no_sidecars(environ: dict[str, str]) -> None:
    assert backend_environment(environ)["PULUMI_BACKEND_URL"].endswith("?metadata=skip")
