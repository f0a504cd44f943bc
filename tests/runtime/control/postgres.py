"""A real Postgres for tests: Debian's binaries, a data directory of its own, a free port."""

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.waiting import wait_for

SKIP_NAME = "postgres"
INSTALLED = Path("/usr/lib/postgresql")
NO_MAIN_CLUSTER = Path("/etc/postgresql-common/createcluster.conf")
ACCOUNT = "postgres"
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextmanager
def running_postgres() -> Iterator[str]:
    """Yield the URL of the server's own database, without a database's name at its end."""
    programs = find_programs()
    folder = Path(tempfile.mkdtemp(prefix="paddock-postgres-"))
    password = secrets.token_hex(16)
    try:
        (folder / "password").write_text(password)
        if os.geteuid() == 0:
            for path in (folder, folder / "password"):
                shutil.chown(path, ACCOUNT)
        data = folder / "data"
        account = ACCOUNT if os.geteuid() == 0 else getpass.getuser()
        options = ["-A", "scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync"]
        options += ["--encoding=UTF8", "--locale=C"]
        call([programs / "initdb", "-D", data, "-U", account, *options])
        url = f"postgresql://{account}:{password}@127.0.0.1:{free_port()}"
        with server([programs / "postgres", "-D", data, "-k", folder], url, folder / "log"):
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server(command: list[str | Path], url: str, log: Path) -> Iterator[None]:
    """Run the server until the block ends; it also ends when this process does."""
    settings = {"listen_addresses": "127.0.0.1", "port": url.rpartition(":")[2], **FAST}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with log.open("wb") as output:
        process = subprocess.Popen(
            as_account([*command, *options], at_death="QUIT"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
        )
    try:
        wait_for(lambda: answers(url, process, log))
        yield
    finally:
        process.send_signal(signal.SIGQUIT)  # at once; a failed test's connections hold up others
        process.wait(60)


def answers(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Tell whether the server takes connections; fails where it has ended."""
    if process.poll() is not None:
        pytest.fail(f"Postgres ended with {process.returncode}:\n{log.read_text()}")
    try:
        psycopg.connect(f"{url}/postgres", connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def find_programs() -> Path:
    """Return the folder of Postgres' programs, installed where that can be done."""
    if not list(INSTALLED.glob("*/bin/initdb")):
        install()
    found = sorted(INSTALLED.glob("*/bin"), key=lambda path: int(path.parent.name))
    return found[-1]


def install() -> None:
    """Install Debian's package without a cluster or a service of it; skips where told to."""
    if SKIP_NAME in os.environ.get("PADDOCK_SKIP", "").replace(",", " ").split():
        pytest.skip(f"no Postgres on this machine, and PADDOCK_SKIP names {SKIP_NAME}")
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.fail(
            "no Postgres on this machine: install Debian's package `postgresql`, or set "
            f"PADDOCK_SKIP={SKIP_NAME}"
        )
    if not NO_MAIN_CLUSTER.exists():
        NO_MAIN_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        NO_MAIN_CLUSTER.write_text("create_main_cluster = false\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    keep = ["-o", "Dpkg::Options::=--force-confold"]
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-qy", "--no-install-recommends", *keep, "postgresql"],
    ):
        call(command, as_root=True, environment=environment)


def call(
    command: list[str | Path],
    *,
    as_root: bool = False,
    environment: dict[str, str] | None = None,
) -> None:
    """Run a command as the server's account; what it printed is the message of a failure."""
    done = subprocess.run(
        command if as_root else as_account(command),
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def as_account(command: list[str | Path], *, at_death: str = "keep") -> list[str | Path]:
    """Return the command for the account that Postgres may run as, which root is not.

    `at_death` is the signal that it gets when this process dies.
    """
    is_root = os.geteuid() == 0
    who = [f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups"] if is_root else []
    return ["setpriv", *who, f"--pdeathsig={at_death}", *command]


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def made_database(url: str, name: str) -> str:
    """Make a database on the server, and return its name."""
    with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    return name
