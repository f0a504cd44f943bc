"""The program that installs environment packages: it leaves the image's own packages alone."""

import base64
import importlib.metadata
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from runtime.credentials import check_environment
from runtime.launch.packages import canonical, install, installed, leave_out_known


def add_package(folder: Path, name: str, version: str) -> Path:
    """Write a package as an installer does; return its module's folder."""
    module = folder / name
    module.mkdir(parents=True)
    (module / "__init__.py").write_text("")
    (module / "__pycache__").mkdir()
    (module / "__pycache__" / "__init__.pyc").write_text("")
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    files = [f"{name}/__init__.py", f"{name}-{version}.dist-info/METADATA"]
    record = f"{name}-{version}.dist-info/RECORD"
    (folder / record).write_text("".join(f"{file},,\n" for file in [*files, record]))
    return module


def test_what_the_image_has_is_left_out(tmp_path: Path) -> None:
    mine = add_package(tmp_path, "math_env", "1.0")
    theirs = add_package(tmp_path, "verifiers", "0.5.0")

    said = leave_out_known(tmp_path, {"verifiers": "0.4.0"})

    assert said == ["verifiers: the image's 0.4.0 is used, not 0.5.0"]
    assert mine.is_dir()
    assert not theirs.exists()
    left = {
        item.metadata["Name"] for item in importlib.metadata.distributions(path=[str(tmp_path)])
    }
    assert left == {"math_env"}


def test_the_same_version_is_left_out_without_a_word(tmp_path: Path) -> None:
    add_package(tmp_path, "verifiers", "0.4.0")

    assert leave_out_known(tmp_path, {"verifiers": "0.4.0"}) == []
    assert not (tmp_path / "verifiers").exists()


def test_no_file_outside_the_folder_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("stays")
    folder = tmp_path / "packages"
    add_package(folder, "verifiers", "0.4.0")
    record = folder / "verifiers-0.4.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + "../outside.txt,,\n")

    leave_out_known(folder, {"verifiers": "0.4.0"})

    assert outside.exists()


def test_names_are_compared_as_the_index_does() -> None:
    assert canonical("Flash_Attn.x") == "flash-attn-x"
    assert "pytest" in installed(importlib.metadata.distributions())


def test_a_secret_of_the_run_stands_in_for_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials: list[str | None] = []

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            credentials.append(self.headers["Authorization"])
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("GIT_TOKEN", "canary")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = f"http://oauth2:${{GIT_TOKEN}}@127.0.0.1:{server.server_port}/x-1.0-py3-none-any.whl"

    code = install([check_environment(f"x @ {url}")], tmp_path / "packages")

    server.shutdown()
    server.server_close()
    assert code != 0
    assert f"Basic {base64.b64encode(b'oauth2:canary').decode()}" in credentials


def test_a_failed_installation_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_path = tmp_path / "bin"
    bin_path.mkdir()
    uv = bin_path / "uv"
    uv.write_text('#!/bin/sh\nfor word; do echo "$word"; done > "$0.argv"\nexit 3\n')
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_path}:/usr/bin:/bin")

    code = install(["math-env==1.0", "-r/etc/passwd"], tmp_path / "packages")

    assert code == 3
    words = (bin_path / "uv.argv").read_text().splitlines()
    assert words[-3:] == ["--", "math-env==1.0", "-r/etc/passwd"]


def test_an_image_without_an_installer_is_named_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert install(["math-env"], tmp_path) == 127
    assert "no uv" in capsys.readouterr().err
