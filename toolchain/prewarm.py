"""Locks and fills the environment of verifiers' null harness, so that later starts need no index.

That harness is a script with inline dependencies, which every env server resolves anew unless a uv
lock lies beside it. Run by `make setup` with the venv's interpreter; prints the lock's path last.
"""

import hashlib
import subprocess
from pathlib import Path


def main() -> None:
    """Write the script where the subprocess runtime looks for it, lock it, install it."""
    from verifiers.v1.harnesses.utils.launch import CHAT_PROGRAM_SOURCE
    from verifiers.v1.runtimes.subprocess import SubprocessRuntime

    name = hashlib.sha256(CHAT_PROGRAM_SOURCE.encode()).hexdigest() + ".py"
    script = Path(SubprocessRuntime.scripts_dir) / name
    script.parent.mkdir(parents=True, exist_ok=True)
    if not script.exists() or script.read_text() != CHAT_PROGRAM_SOURCE:
        script.write_text(CHAT_PROGRAM_SOURCE)
    _uv("lock", script)
    _uv("sync", script, "--compile-bytecode")
    print(script.with_name(f"{name}.lock"))


def _uv(action: str, script: Path, *options: str) -> None:
    command = ["uv", action, "--script", str(script), "--quiet", "--no-config", *options]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
