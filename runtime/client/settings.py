"""Which server is asked, and with which API key: flag, environment, or what `paddock login` kept.

The keys stand in PADDOCK_HOME/client.json, 0600, each under the address it is for: a key is never
sent to another server than the one that it was given for.
"""

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime import homes
from runtime.client.errors import UnauthorizedError
from runtime.errors import Problem, SettingsError
from runtime.local_state import write_json

SERVER_VARIABLE = "PADDOCK_SERVER"
KEY_VARIABLE = "PADDOCK_API_KEY"
PROMPT = "the prompt"
"""Source of a key that a login read from its prompt or a pipe."""

DEFAULT_SERVER = "http://127.0.0.1:8899"
"""Where `paddock serve` listens when nothing says otherwise."""

_FILE = "client.json"
_API = "/api/v1"
_HOST = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_PLAIN = re.compile(r"[!\"$->@-~]+")
"""ASCII without space, ? and #."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A server and the key for it; the address has no trailing slash and no /api/v1."""

    url: str
    api_key: str = field(repr=False)
    key_source: str
    """Where the key came from, for messages."""

    @property
    def other_key(self) -> str:
        """Return where another key comes from, for when the server does not take this one."""
        if self.key_source == KEY_VARIABLE:  # it wins over what a login keeps
            return f"set {KEY_VARIABLE} to a valid one, or unset it and use paddock login"
        if self.key_source == PROMPT:
            return "`paddock key add` on the server's machine makes one"
        return f"paddock login --server {self.url}"

    @property
    def is_loopback(self) -> bool:
        """Tell whether it is this machine, which no proxy leads to."""
        return urlsplit(self.url).hostname in _LOOPBACK


class _Kept(BaseModel):
    """The file: the server that is asked where none is named, and a key for each."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    server: str | None = None
    keys: dict[str, str] = Field(default_factory=dict, repr=False)


def choose_server(flag: str | None, environ: Mapping[str, str]) -> Server:
    """Return the server of the flag, the environment or the login, with its key.

    Raises SettingsError for an address or a file that is wrong, UnauthorizedError without a key.
    """
    named = flag or environ.get(SERVER_VARIABLE)
    key = environ.get(KEY_VARIABLE)
    kept = _Kept() if named and key else _read(environ)
    if not named and not kept.server:
        message = "no server is named"
        fix = f"paddock login, --server URL, or {SERVER_VARIABLE}"
        raise SettingsError([Problem(loc=("--server",), message=message, fix=fix)], source="client")
    url = read_url(named or kept.server or "")
    if key:
        return Server(url=url, api_key=check_key(key, KEY_VARIABLE), key_source=KEY_VARIABLE)
    if url not in kept.keys:
        raise UnauthorizedError(
            f"no API key for {url}: paddock login --server {url}, or set {KEY_VARIABLE}"
        )
    path = str(client_file(environ))
    return Server(url=url, api_key=check_key(kept.keys[url], path), key_source=path)


def login_url(flag: str | None, environ: Mapping[str, str]) -> str:
    """Return the address that a login is for: what is named, else the last one, else loopback."""
    named = flag or environ.get(SERVER_VARIABLE)
    return read_url(named or _read(environ).server or DEFAULT_SERVER)


def keep(server: Server, environ: Mapping[str, str]) -> Path:
    """Write a server and its key to the file, as the one that is asked from now on."""
    homes.make_home(environ)
    kept = _read(environ)
    path = client_file(environ)
    write_json(path, {"server": server.url, "keys": {**kept.keys, server.url: server.api_key}})
    return path


def client_file(environ: Mapping[str, str]) -> Path:
    """Return the file that a login writes."""
    return homes.home_path(environ) / _FILE


def read_url(text: str) -> str:
    """Return an address without what the client adds itself. Raises SettingsError."""
    url = text.strip().rstrip("/").removesuffix(_API).rstrip("/")
    try:
        parts = urlsplit(url)
        host, is_port = parts.hostname or "", parts.port != 0
    except ValueError:  # a port that is no number
        raise _bad_url(f"{text!r} is no address of a server", f"e.g. {DEFAULT_SERVER}") from None
    if parts.username is not None or parts.password is not None:
        raise _bad_url("an address carries no user and no password", f"set {KEY_VARIABLE}")
    is_host = _HOST.fullmatch(host) or ":" in host
    if parts.scheme not in {"http", "https"} or not (is_host and is_port and _PLAIN.fullmatch(url)):
        raise _bad_url(f"{text!r} is no address of a server", f"e.g. {DEFAULT_SERVER}")
    return url


def check_key(key: str, source: str) -> str:
    """Return a key that a header can carry. Raises SettingsError, which does not show it."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        message = f"the API key of {source} is empty or holds a space or another odd character"
        raise SettingsError([Problem(message=message, fix="copy it anew")], source="client")
    return key


def _read(environ: Mapping[str, str]) -> _Kept:
    path = client_file(environ)
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
    except FileNotFoundError:
        return _Kept()
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        problem = Problem(message="can be read by others, and holds keys", fix=f"chmod 600 {path}")
        raise SettingsError([problem], source=str(path))
    try:
        return _Kept.model_validate_json(text)
    except ValidationError:
        problem = Problem(message="is not what paddock wrote", fix="remove it, then paddock login")
        raise SettingsError([problem], source=str(path)) from None


def _bad_url(message: str, fix: str) -> SettingsError:
    return SettingsError([Problem(loc=("--server",), message=message, fix=fix)], source="client")
