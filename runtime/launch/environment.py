"""The base environment of local processes: an allow-list, so that nothing of the caller leaks.

A supervisor is started by a Pulumi provider, whose environment holds the stack's passphrase and the
caller's credentials; a component sees neither.
"""

from collections.abc import Mapping
from pathlib import Path

_KEPT = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_CTYPE",
        "LD_LIBRARY_PATH",
        "LOGNAME",
        "PADDOCK_CACHE",
        "PADDOCK_HOME",
        "PATH",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
        "UV_CACHE_DIR",
        "XDG_CACHE_HOME",
    }
)


def base_environment(environ: Mapping[str, str], *, python: str) -> dict[str, str]:
    """Return the allow-listed part of an environment, the interpreter's folder first in PATH."""
    kept = {key: value for key, value in environ.items() if key in _KEPT}
    folder = str(Path(python).parent)
    kept["PATH"] = f"{folder}:{kept.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    return kept


def device_environment(devices: tuple[str, ...]) -> dict[str, str]:
    """Return what shows a component its devices: CUDA ids, or none for CPU slots."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
