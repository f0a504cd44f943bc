"""The unmodified `prime` client in a virtual environment of its own, installed once a machine."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from runtime import homes
from runtime.local_state import file_lock

REQUIREMENT = "prime==0.18.*"
INSTALL_S = 600
RUN_S = 120
_FOLDER = "prime-client-0.18"


def prime_program() -> Path:
    """Return the client's program, installed from the package index where the cache has it not."""
    folder = homes.cache_path() / _FOLDER
    program, mark = folder / "bin" / "prime", folder / "installed"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.parent / f"{_FOLDER}.lock"):
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            uv = str(Path(sys.executable).parent / "uv")
            python = str(folder / "bin" / "python")
            _call(uv, "venv", "--python", sys.executable, str(folder))
            _call(uv, "pip", "install", "--python", python, REQUIREMENT)
            mark.touch()
    return program


def _call(*command: str) -> None:
    # as `make setup` does it: a company's proxy is known to the system
    environment = {"UV_SYSTEM_CERTS": "true", **os.environ}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=INSTALL_S
    )
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, kw_only=True)
class Prime:
    """The client of one user against one server."""

    program: Path
    url: str
    token: str
    home: Path

    def __call__(self, *words: str, stdin: str = "") -> Said:
        """Run a command to its end."""
        done = subprocess.run(
            [str(self.program), *words],
            env=self.environment(),
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=RUN_S,
        )
        return Said(code=done.returncode, out=done.stdout, err=done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command that does not end by itself."""
        return subprocess.Popen(
            [str(self.program), *words],
            env=self.environment(),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def environment(self) -> dict[str, str]:
        """Return the variables that a user sets, on a wide terminal without colours."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
            "NO_PROXY": "127.0.0.1",
            "PRIME_API_BASE_URL": self.url,
            "PRIME_API_KEY": self.token,
            "PRIME_FRONTEND_URL": self.url,
            "PRIME_DISABLE_VERSION_CHECK": "1",
        }
