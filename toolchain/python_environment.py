"""Makes `.venv` from requirements.lock with a pinned uv that lives in paddock's cache.

Nothing goes into the user's own Python: uv is taken out of a temporary venv.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from runtime.errors import SetupError
from toolchain.progress import run_with_progress, say

UV_LOCK = Path(__file__).parent / "uv.lock.txt"
TOPIC = "python"


def ensure_uv(*, cache_dir: Path, environment: Mapping[str, str]) -> Path:
    """Return the pinned uv, fetching it from the package index if the cache does not hold it."""
    version = uv_version()
    target = cache_dir / f"uv-{version}" / "uv"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        venv = Path(scratch, "venv")
        _run_quietly(
            [sys.executable, "-m", "venv", venv],
            environment=environment,
            fix="install Python's `venv` and `ensurepip` (Debian: python3-venv)",
        )
        pip = [venv / "bin" / "python", "-m", "pip", "install", "--no-deps", "--require-hashes"]
        run_with_progress(
            [*pip, "--requirement", UV_LOCK],
            topic=TOPIC,
            what=f"fetching uv {version}",
            environment=environment,
        )
        (venv / "bin" / "uv").replace(target)
    return target


def uv_version() -> str:
    """Return the version of uv that toolchain/uv.lock.txt pins."""
    found = re.search(r"^uv==(\S+)", UV_LOCK.read_text(), re.MULTILINE)
    assert found, "toolchain/uv.lock.txt pins uv"
    return found.group(1)


def make_environment(
    *, checkout: Path, venv: Path, uv: Path, environment: Mapping[str, str]
) -> None:
    """Make the venv hold exactly what requirements.lock says, and this checkout as an editable."""
    python = venv / "bin" / "python"
    if not _is_usable(venv):
        _run_quietly(
            [uv, "venv", "--quiet", "--no-project", "--clear", "--python", sys.executable, venv],
            environment=environment,
            fix="remove .venv and try again",
        )
    target = ["--python", str(python)]
    lock = checkout / "requirements.lock"
    run_with_progress(
        [uv, "pip", "sync", *target, "--require-hashes", "--compile-bytecode", lock],
        topic=TOPIC,
        what="installing requirements.lock into .venv",
        environment=environment,
    )
    # Without isolation, hatchling is the locked one and not the index's newest.
    run_with_progress(
        [
            uv,
            "pip",
            "install",
            *target,
            "--no-deps",
            "--no-build-isolation",
            "--editable",
            checkout,
        ],
        topic=TOPIC,
        what="installing this checkout",
        environment=environment,
    )
    _link_uv(uv, venv / "bin" / "uv")


def prewarm_null_harness(
    *, checkout: Path, venv: Path, environment: Mapping[str, str]
) -> Path | None:
    """Lock the null harness' script while an index is reachable.

    Returns the lock's path, or None after a warning when that failed: nothing else needs it.
    """
    if not list(venv.glob("lib/python*/site-packages/verifiers")):
        return None
    command = [str(venv / "bin" / "python"), "-m", "toolchain.prewarm"]
    say(TOPIC, "preparing the null harness of verifiers ...")
    search_path = f"{venv / 'bin'}:{environment.get('PATH', '')}"
    result = subprocess.run(
        command,
        cwd=checkout,
        env={**environment, "PATH": search_path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if result.returncode == 0:
        return Path(result.stdout.splitlines()[-1])
    reason = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-1]
    say(
        TOPIC,
        f"warning: the null harness is not prepared ({reason}). Only runs that ask for the real "
        "null harness need it, and they now need a package index: run `make setup` again to retry",
    )
    return None


def _is_usable(venv: Path) -> bool:
    """Tell whether the venv was made for this path, and its interpreter still starts."""
    activate = venv / "bin" / "activate"
    if not activate.exists() or str(venv) not in activate.read_text():
        return False
    check = [str(venv / "bin" / "python"), "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    try:
        return subprocess.run(check, check=False).returncode == 0
    except OSError:
        return False


def _link_uv(uv: Path, link: Path) -> None:
    """Let the env server find uv beside its interpreter."""
    if shutil.which(str(link)) and link.samefile(uv):
        return
    link.unlink(missing_ok=True)
    link.symlink_to(uv)


def _run_quietly(command: list[str | Path], *, environment: Mapping[str, str], fix: str) -> None:
    words = [str(word) for word in command]
    result = subprocess.run(words, env=dict(environment), capture_output=True, text=True)
    if result.returncode != 0:
        output = (result.stdout + result.stderr).strip()
        raise SetupError(f"`{' '.join(words[:4])}` failed: {fix}\n{output}")
