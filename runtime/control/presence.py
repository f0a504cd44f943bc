"""Presence: which servers may work on one database at once.

Several share it only where each can open every stack and read what another captured: the database
is Postgres, the state backend no folder, the secrets provider no file of one host, and a place for
artifacts is named. Any other server is alone, and says so by a lease; on SQLite by a file's lock,
which a dead server lets go of at once. Where a cluster is this machine, servers of other hosts
would take its runs for gone, so those of its own host are among themselves.
"""

import fcntl
import hashlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from runtime import homes
from runtime.control.artifact_store import ARTIFACTS_VARIABLE
from runtime.control.backend import engine_service_environment, file_backend, is_passphrase_file
from runtime.control.lease_keeper import TTL_S
from runtime.control.store import leases
from runtime.control.store.store import Store
from runtime.control.values import Lease
from runtime.errors import SetupError, StoreError


class Others(StrEnum):
    """Which other servers may be there: the first word of a server's lease."""

    NONE = "alone"
    OF_ITS_HOST = "of-host"
    ANY = "beside"


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """What binds a server: `why` for people, empty where nothing does."""

    others: Others = Others.ANY
    why: str = ""


_MACHINE_ID = Path("/etc/machine-id")
_GATE = "presence"
_GATE_S = 5.0
_WAIT_S = TTL_S + 5.0
"""How long a starting server waits for the leases of a dead one to run out."""

_POLL_S = 0.2
_LOG = logging.getLogger(__name__)


def host_bound(store: Store, environ: Mapping[str, str]) -> Binding:
    """Return what binds a server's stacks, captures or clusters to one host."""
    why = _why_alone(store, environ)
    if why:
        return Binding(others=Others.NONE, why=why)
    # read from the disk: stacks are known only to a server that has entered
    folder = homes.home_path(environ) / "clusters"
    names = sorted(path.parent.name for path in folder.glob("*/cluster.json"))
    if names:
        return Binding(others=Others.OF_ITS_HOST, why=f"cluster {names[0]} is this machine")
    return Binding()


def _why_alone(store: Store, environ: Mapping[str, str]) -> str:
    chosen = engine_service_environment(environ)
    if not store.is_shared:
        return f"the database {store.name} is a file"
    backend = file_backend(chosen)
    if backend is not None:
        return f"the state backend {backend} is a folder of this host"
    if is_passphrase_file(chosen):
        return "the passphrase of the stacks' secrets is in a file of this host"
    if not environ.get(ARTIFACTS_VARIABLE):
        return f"captured logs are in a folder of this host ({ARTIFACTS_VARIABLE} is not set)"
    return ""


def end_server() -> None:
    """End this process as an operator does, by SIGTERM."""
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def present(
    store: Store,
    holder: str,
    bound: Binding,
    *,
    wait_s: float = _WAIT_S,
    end: Callable[[], None] = end_server,
) -> Iterator[None]:
    """Be one of the servers of a database; `bound` is what `host_bound` says.

    Raises SetupError where another server works on it that this one may not work beside. `end` is
    called, once, where one has started since: while this server could not reach the database.
    """
    if not store.is_shared:
        with lock_out_servers(Path(store.engine.url.database or "")):
            with store.write() as tx:  # a dead server's need not run out first
                leases.release_all(tx)
            yield
        return
    lease = _enter(store, holder, bound, wait_s=wait_s)
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(TTL_S / 5):
            try:
                others = _renew(store, lease)
            except (StoreError, DBAPIError) as error:
                _LOG.warning("the lease %s could not be renewed: %s", lease.name, error)
                continue
            except Exception:  # whoever comes later would start beside a server that works on
                _LOG.exception("the lease %s could not be renewed", lease.name)
                continue
            if others:
                _LOG.error("this server ends: %s", _not_alone(store, bound, others))
                return end()

    thread = threading.Thread(target=keep, name="presence", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        _release(store, lease)


def _enter(store: Store, holder: str, bound: Binding, *, wait_s: float) -> Lease:
    name = f"{bound.others}/{_host_name()}/{holder}"
    deadline = time.monotonic() + wait_s
    others: list[str] = []
    while time.monotonic() < deadline:
        with store.write() as tx:
            # whoever starts at the same moment waits for the end of this transaction
            gate = leases.acquire(tx, _GATE, holder, _GATE_S)
            if gate is not None:
                others = _excluded(tx, name)
                lease = leases.acquire(tx, name, holder, TTL_S) if not others else None
                leases.release(tx, gate)
                if lease is not None:
                    return lease
        time.sleep(_POLL_S)
    raise _not_alone(store, bound, others)


def _host_name() -> str:
    """Return what tells this host from others, of which many are called `localhost`."""
    machine_id = b""
    with suppress(OSError):
        machine_id = _MACHINE_ID.read_bytes().strip()
    # man 5 machine-id: not to be shown as it is
    return f"{socket.gethostname()}.{hashlib.sha256(b'paddock' + machine_id).hexdigest()[:12]}"


def _not_alone(store: Store, bound: Binding, others: list[str]) -> SetupError:
    named = ", ".join(name.rpartition("/")[2] for name in others)
    why = bound.why or "that server's backend, passphrase, artifacts or cluster is its host's"
    return SetupError(
        f"another server works on {store.name} ({named}), and {why}: stop it, or give all of them "
        "a shared PULUMI_BACKEND_URL (s3://, gs://, azblob://), a shared PADDOCK_ARTIFACTS "
        "(s3://), and PULUMI_CONFIG_PASSPHRASE or a key service as secrets provider; a cluster of "
        "target local takes servers of its own host only: `pulumi destroy` its stack on that host "
        "where it is not used any more"
    )


def _renew(store: Store, lease: Lease) -> list[str]:
    """Prolong a server's lease; return the servers that it may not work beside, if there are any.

    It may have run out while the database was away. No other server takes a lease of its name, so
    only a look at all of them tells whether one has started meanwhile.
    """
    with store.write() as tx:
        gate = leases.acquire(tx, _GATE, lease.holder, _GATE_S)
        if gate is None:
            return []
        others = _excluded(tx, lease.name)
        if not others and not leases.renew(tx, lease, TTL_S):
            _LOG.error("%s was lost: another server may have started", lease.name)
        leases.release(tx, gate)
        return others


def _excluded(connection: Connection, name: str) -> list[str]:
    """Return the servers' leases that are held and exclude one of this name."""
    held = [one.name for one in leases.list_held(connection) if one.name != name]
    return [one for one in held if one.partition("/")[0] in list(Others) and _excludes(one, name)]


def _excludes(one: str, other: str) -> bool:
    """Tell whether two servers exclude each other, by what their leases are named."""
    kinds = {one.partition("/")[0], other.partition("/")[0]}
    if Others.NONE in kinds:
        return True
    return Others.OF_ITS_HOST in kinds and _host_of(one) != _host_of(other)


def _host_of(name: str) -> str:
    return name.partition("/")[2].rpartition("/")[0]


def _release(store: Store, lease: Lease) -> None:
    try:
        with store.write() as tx:
            leases.release(tx, lease)
    except (StoreError, DBAPIError) as error:
        _LOG.warning("the lease %s is left to run out: %s", lease.name, error)


@contextmanager
def lock_out_servers(database: Path) -> Iterator[None]:
    """Hold a SQLite database against every server. Raises SetupError where one works on it."""
    path = database.with_name(f"{database.name}.server")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetupError(
                f"another server works on {database}: SQLite takes one; stop it, or use Postgres"
            ) from None
        yield
    finally:
        os.close(descriptor)
