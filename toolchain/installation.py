"""What `make setup` does, in order: uv, `.venv` and the engine, each only where it is missing.

The engine is built while the Python packages are fetched. A stamp in the venv holds a digest of all
inputs, so that a second setup takes seconds.
"""

import fcntl
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SetupError
from runtime.toolchain import Engine, engine_bin_dir, find_official_engine
from toolchain.engine_bin import install_engine
from toolchain.engine_build import build_engine, engine_version
from toolchain.progress import say
from toolchain.python_environment import (
    UV_LOCK,
    ensure_uv,
    make_environment,
    prewarm_null_harness,
)

STAMP_NAME = "paddock-setup.json"
TOPIC = "setup"
INTERRUPTED_EXIT_CODE = 130  # as a shell says it


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where this checkout's pieces lie, and the environment that its commands run in."""

    checkout: Path
    cache_dir: Path
    environment: dict[str, str]

    @property
    def venv(self) -> Path:
        """Return the checkout's virtual environment."""
        return self.checkout / ".venv"

    @property
    def engine_module(self) -> Path:
        """Return the Go module that pins the engine."""
        return self.checkout / "toolchain" / "engine"


def install() -> int:
    """Set this checkout up and return the exit code; errors are printed, not raised."""
    started = time.monotonic()
    layout = find_layout()
    try:
        with _only_setup(layout.checkout):
            changed = _install(layout)
    except SetupError as error:
        print(f"make setup: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("make setup: interrupted; the next one goes on from here", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    what = "ready" if changed else "nothing to do"
    say(TOPIC, f"{what} in {time.monotonic() - started:.1f} s: .venv/bin/paddock --help")
    return 0


def find_layout() -> Layout:
    """Return the pieces of the checkout that this module lies in."""
    environment = dict(os.environ)
    environment.setdefault("HOME", str(Path.home()))  # Go and uv derive their caches from it
    environment.setdefault("UV_SYSTEM_CERTS", "true")  # a company's proxy is known to the system
    environment.pop("VIRTUAL_ENV", None)
    environment.pop("PYTHONHOME", None)
    cache_dir = environment.get("PADDOCK_CACHE") or Path(environment["HOME"], ".cache", "paddock")
    return Layout(
        checkout=Path(__file__).resolve().parent.parent,
        cache_dir=Path(cache_dir).resolve(),
        environment=environment,
    )


def _install(layout: Layout) -> bool:
    """Install what is missing and return whether anything was."""
    official = find_official_engine(layout.environment.get("PATH", ""))
    stamp_path = layout.venv / STAMP_NAME
    digest = _digest(layout.checkout)
    if official is not None:
        say("engine", f"using your Pulumi: {official.pulumi}")
    if _is_current(stamp_path, digest=digest, official=official):
        return False
    with ThreadPoolExecutor(max_workers=1) as builder:
        building = None if official is not None else builder.submit(_build, layout)
        try:
            lock_path = _install_python(layout)
        except SetupError as error:
            if building is not None and not building.done():
                say(TOPIC, f"failed: {error}\n(waiting for the engine's build, which is kept)")
            raise
        if building is not None:
            _place_engine(layout, engine=building.result())
    needed = [layout.venv / "bin" / name for name in ("python", "paddock", "uv")]
    needed += [lock_path] if lock_path is not None else []
    stamp = {
        "digest": digest,
        "needed": [str(path) for path in needed],
        "prewarmed": bool(lock_path),
    }
    stamp_path.write_text(json.dumps(stamp, indent=2) + "\n")
    return True


def _build(layout: Layout) -> Path:
    return build_engine(
        module_dir=layout.engine_module,
        cache_dir=layout.cache_dir,
        environment=layout.environment,
    )


def _place_engine(layout: Layout, *, engine: Path) -> None:
    install_engine(
        engine=engine,
        version=engine_version(layout.engine_module),
        bin_dir=engine_bin_dir(layout.venv),
        python=layout.venv / "bin" / "python",
    )


def _install_python(layout: Layout) -> Path | None:
    """Make the venv and return the null harness' lock, None where that was not to be had."""
    uv = ensure_uv(cache_dir=layout.cache_dir, environment=layout.environment)
    make_environment(
        checkout=layout.checkout, venv=layout.venv, uv=uv, environment=layout.environment
    )
    return prewarm_null_harness(
        checkout=layout.checkout, venv=layout.venv, environment=layout.environment
    )


def _digest(checkout: Path) -> str:
    """Return the digest of all that setup's result depends on."""
    digest = hashlib.sha256(f"{checkout} {sys.version_info[:2]}".encode())
    toolchain = checkout / "toolchain"
    inputs = [checkout / "requirements.lock", checkout / "pyproject.toml", *toolchain.rglob("*.py")]
    inputs += [toolchain / "engine" / "go.mod", toolchain / "engine" / "go.sum"]
    inputs += [toolchain / UV_LOCK.name]
    for path in sorted(inputs):
        digest.update(path.relative_to(checkout).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_current(stamp_path: Path, *, digest: str, official: Engine | None) -> bool:
    try:
        stamp = json.loads(stamp_path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    if stamp["digest"] != digest or not stamp["prewarmed"]:
        return False
    own_engine = engine_bin_dir(stamp_path.parent) / "pulumi"
    if official is None and not own_engine.exists():
        return False
    return all(Path(path).exists() for path in stamp["needed"])


@contextmanager
def _only_setup(checkout: Path) -> Iterator[None]:
    """Let one setup at a time work on a checkout."""
    with (checkout / "requirements.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(TOPIC, "waiting for another setup of this checkout ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
