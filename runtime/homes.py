"""The two folders outside a checkout: PADDOCK_HOME for state and secrets, the cache for the rest.

Read from the environment here and nowhere else, when asked, never at import.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from runtime.errors import Problem, SettingsError


def home_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return PADDOCK_HOME (default ~/.paddock): backend, passphrase file, local clusters."""
    source = os.environ if environ is None else environ
    return Path(source.get("PADDOCK_HOME") or "~/.paddock").expanduser().absolute()


def cache_path() -> Path:
    """Return PADDOCK_CACHE (default ~/.cache/paddock): what can be made again."""
    return Path(os.environ.get("PADDOCK_CACHE") or "~/.cache/paddock").expanduser().absolute()


def state_path(cluster: str) -> Path:
    """Return the default state directory of a local cluster stack."""
    return home_path() / "clusters" / cluster


def make_home(environ: Mapping[str, str] | None = None) -> Path:
    """Make PADDOCK_HOME, readable by its owner only, and return it. Raises SettingsError."""
    path = home_path(environ)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.chmod(0o700)
    except OSError as error:
        problem = Problem(
            loc=("PADDOCK_HOME",),
            message=f"{path}: {error.strerror}",
            fix="name a folder that is yours, or that can be made",
        )
        raise SettingsError([problem], source="environment") from None
    return path
