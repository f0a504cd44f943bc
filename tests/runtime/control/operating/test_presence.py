"""Which servers may work on one database at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from runtime.control import presence
from runtime.control.presence import Binding, Others, host_bound, present
from runtime.control.store import leases
from runtime.control.store.store import Store
from runtime.errors import SetupError
from runtime.local_state import create_state
from tests.waiting import wait_for

STACKS = {"PULUMI_BACKEND_URL": "s3://stacks"}
SHARED = {
    **STACKS,
    "PULUMI_CONFIG_PASSPHRASE": "known",
    "PADDOCK_ARTIFACTS": "s3://captures",
}
FREE = Binding()
FOLDER = Binding(others=Others.NONE, why="the state backend is a folder")
MACHINE = Binding(others=Others.OF_ITS_HOST, why="cluster local is this machine")
Open = Callable[[str], Store]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose home, login and engine are nobody's."""
    return {"PADDOCK_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}


def test_a_file_database_binds_a_server_to_its_host(
    sqlite_store: Store, home: dict[str, str]
) -> None:
    bound = host_bound(sqlite_store, {**home, **SHARED})

    assert "is a file" in bound.why
    assert bound.others is Others.NONE


def test_the_next_server_of_a_file_database_does_not_wait_for_the_dead_one(
    sqlite_store: Store,
) -> None:
    with sqlite_store.write() as tx:
        dead = leases.acquire(tx, "scheduler", "dead", 3600.0)
    assert dead is not None

    with present(sqlite_store, "next", FOLDER), sqlite_store.write() as tx:
        assert leases.list_held(tx) == []
        assert not leases.is_held(tx, dead)
        taken = leases.acquire(tx, "scheduler", "next", 15.0)

    assert taken is not None
    assert taken.token > dead.token


@pytest.mark.control
@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({}, "state backend"),
        (SHARED, ""),
        ({**STACKS, "PADDOCK_ARTIFACTS": "s3://captures"}, ""),
        ({**STACKS, "PULUMI_CONFIG_PASSPHRASE_FILE": "/secret"}, "is in a file of this host"),
        ({**SHARED, "PADDOCK_ARTIFACTS": ""}, "captured logs are in a folder of this host"),
        ({**SHARED, "PADDOCK_ARTIFACTS": "/mnt/of-all-hosts"}, ""),
    ],
)
def test_what_binds_a_server_of_a_shared_database(
    opened: Open, postgres_url: str, home: dict[str, str], chosen: dict[str, str], said: str
) -> None:
    store = opened(f"{postgres_url}/paddock_shared")

    bound = host_bound(store, {**home, **chosen})

    assert said in bound.why if said else bound == FREE
    assert bound.others is (Others.NONE if said else Others.ANY)


@pytest.mark.control
def test_a_cluster_that_is_this_machine_binds_a_server_to_its_host(
    opened: Open, postgres_url: str, home: dict[str, str]
) -> None:
    store = opened(f"{postgres_url}/paddock_shared")
    create_state(Path(home["PADDOCK_HOME"]) / "clusters" / "dev", devices=("",))

    bound = host_bound(store, {**home, **SHARED})

    assert bound == Binding(others=Others.OF_ITS_HOST, why="cluster dev is this machine")


@pytest.mark.control
def test_two_hosts_of_one_name_are_two_hosts(
    opened: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = opened(f"{postgres_url}/paddock_shared")
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")

    with present(store, "one", MACHINE):
        monkeypatch.setattr(presence, "_MACHINE_ID", tmp_path / "machine-id")
        (tmp_path / "machine-id").write_text("other\n")
        with (
            pytest.raises(SetupError, match="servers of its own host only"),
            present(store, "other", MACHINE, wait_s=0.5),
        ):
            pass


@pytest.mark.control
@pytest.mark.parametrize(("first", "second"), [(MACHINE, FREE), (FREE, MACHINE)])
def test_a_cluster_that_is_a_machine_takes_servers_of_its_host_only(
    opened: Open,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    first: Binding,
    second: Binding,
) -> None:
    store = opened(f"{postgres_url}/paddock_shared")

    with present(store, "one", first):
        with present(store, "of-this-host", second, wait_s=0.5):
            pass
        monkeypatch.setattr("socket.gethostname", lambda: "other-host")
        with (
            pytest.raises(SetupError, match="of its own host only: `pulumi destroy` its stack"),
            present(store, "other", second, wait_s=0.5),
        ):
            pass
    with present(store, "other", second, wait_s=0.5):
        pass


@pytest.mark.parametrize(("first", "second"), [(FOLDER, FOLDER), (FOLDER, FREE), (FREE, FOLDER)])
def test_a_server_that_is_bound_is_alone(
    store_url: str, opened: Open, first: Binding, second: Binding
) -> None:
    one, other = opened(store_url), opened(store_url)

    with (
        present(one, "one", first),
        pytest.raises(SetupError, match="another server works on"),
        present(other, "other", second, wait_s=0.5),
    ):
        pass
    with present(other, "other", second, wait_s=0.5):
        pass


@pytest.mark.control
def test_servers_that_are_bound_to_no_host_share_a_database(
    opened: Open, postgres_url: str
) -> None:
    with ExitStack() as servers:
        for number in range(3):
            store = opened(f"{postgres_url}/paddock_shared")
            servers.enter_context(present(store, f"server-{number}", FREE))


@pytest.mark.control
@pytest.mark.parametrize("bound", [FREE, FOLDER])
def test_a_server_that_was_cut_off_ends_where_another_has_to_be_alone(
    opened: Open, postgres_url: str, monkeypatch: pytest.MonkeyPatch, bound: Binding
) -> None:
    store = opened(f"{postgres_url}/paddock_shared")
    monkeypatch.setattr(presence, "TTL_S", 1.0)
    ended = threading.Event()

    with present(store, "cut-off", bound, end=ended.set):
        run_out(store)
        wait_for(lambda: any("cut-off" in one for one in held(store)))
        assert not ended.is_set()  # nobody came in between
        run_out(store, "alone/other")
        assert ended.wait(60)
    run_out(store)


def held(store: Store) -> list[str]:
    """Return the names of the leases that are held."""
    with store.read() as tx:
        return [one.name for one in leases.list_held(tx)]


def run_out(store: Store, *started: str) -> None:
    """Let all leases be over, as after a while without the database, and others start meanwhile."""
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE leases SET expires_at = 0")
        for name in started:
            assert leases.acquire(tx, name, "other", 3600.0) is not None


@pytest.mark.control
def test_of_servers_that_start_at_once_one_is_alone(opened: Open, postgres_url: str) -> None:
    def start(number: int) -> ExitStack | None:
        store = opened(f"{postgres_url}/paddock_shared")
        entered = ExitStack()
        try:
            entered.enter_context(present(store, f"server-{number}", FOLDER, wait_s=1.0))
        except SetupError:
            return None
        return entered

    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(start, range(4)))

    alone = [one for one in started if one is not None]
    assert len(alone) == 1
    alone[0].close()
