"""The environment in which `pulumi` is run: engine, backend and secrets provider.

A backend or login of the user's is always respected; only where there is neither, paddock
makes a file backend and a 0600 passphrase file under PADDOCK_HOME.
"""

import contextlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from runtime import homes
from runtime.toolchain import engine_environment

_BACKEND = "PULUMI_BACKEND_URL"
_NO_SIDECARS = "?metadata=skip"
"""Write no `.attrs` file beside each state file: it is written in place, and an engine killed in
between leaves it empty, after which the engine refuses every stack of the backend ("EOF")."""

DATABASE_VARIABLE = "PADDOCK_DATABASE"

_PASSPHRASE_FILE = "PULUMI_CONFIG_PASSPHRASE_FILE"  # noqa: S105 - a variable's name
_PASSPHRASE = "PULUMI_CONFIG_PASSPHRASE"  # noqa: S105 - a variable's name


def pulumi_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment for `pulumi`; makes backend and passphrase file if needed."""
    return {**engine_environment(environ), **backend_environment(environ)}


def backend_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that choose backend and passphrase, empty where the user has chosen."""
    if environ.get(_BACKEND) or _has_login(environ):
        return {}
    home = homes.make_home(environ)
    backend = home / "backend"
    backend.mkdir(mode=0o700, exist_ok=True)
    chosen = {_BACKEND: f"file://{backend}{_NO_SIDECARS}"}
    if not (environ.get(_PASSPHRASE_FILE) or _PASSPHRASE in environ):
        chosen[_PASSPHRASE_FILE] = str(_passphrase_file(home))
    return chosen


def engine_service_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server's operations: the backend chosen, without the database.

    The address of the database may hold its password, and no operation needs it.
    """
    chosen = {**pulumi_environment(environ)}
    login = _login(environ)
    if login and not chosen.get(_BACKEND):  # a login is in a PULUMI_HOME, which each has its own of
        chosen[_BACKEND] = login
    chosen.pop(DATABASE_VARIABLE, None)
    return chosen


def file_backend(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of a file backend, of a login too; None for any other backend."""
    url = environ.get(_BACKEND) or _login(environ)
    if not url.startswith("file://"):
        return None
    return Path(url.removeprefix("file://").partition("?")[0]).expanduser()


def is_passphrase_file(environ: Mapping[str, str]) -> bool:
    """Tell whether the passphrase of the stacks is read from a file."""
    return bool(environ.get(_PASSPHRASE_FILE)) and _PASSPHRASE not in environ


def _has_login(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("PULUMI_ACCESS_TOKEN") or _login(environ))


def _login(environ: Mapping[str, str]) -> str:
    """Return the backend that the user is logged in to, empty where there is none."""
    home = Path(environ.get("PULUMI_HOME") or Path(environ.get("HOME", "~")) / ".pulumi")
    try:
        stored = json.loads((home.expanduser() / "credentials.json").read_text())
    except (OSError, ValueError):
        return ""
    return str(stored.get("current") or "") if isinstance(stored, dict) else ""


def _passphrase_file(home: Path) -> Path:
    """Return the passphrase file, made whole or not at all: a torn one would lock its stacks."""
    path = home / "passphrase"
    if not path.exists():
        partial = home / f".passphrase.{secrets.token_hex(4)}"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(partial, path)
        partial.unlink()
    path.chmod(0o600)
    return path
