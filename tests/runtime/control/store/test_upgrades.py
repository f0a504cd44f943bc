"""Upgrades of a database that has rows: from every revision that was ever released, on both."""

import hashlib
import subprocess
from collections.abc import Callable, Mapping

import pytest
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from runtime.control.operations import Operation, OperationKind
from runtime.control.store import events, keys, migrations, operations, runs, schema, wallets
from runtime.control.store.run_lists import live_runs
from runtime.control.store.store import Store, open_store, read_url
from runtime.states import RunState
from tests.engine.sites import PADDOCK, ROOT

TOKEN = "pdk_old"
NOON = 1_796_126_400_000_000
RUN = {
    "user_id": "u1",
    "team_id": "t1",
    "name": "caf\u00e9",
    "model": "m",
    "environments": '["reverse-text"]',
    "config_text": "max_steps = 1\n",
    "config_digest": "d",
    "plan_json": "{}",
    "settings": '{"volume": null}',
    "secret_names": '["HF_TOKEN"]',
    "cluster": "east",
    "gpu_type": "H100_80GB",
    "num_gpus": 8,
    "reason": "",
    "attempt": 1,
    "is_adopted": False,
    "wish": "RUN",
    "created_at": NOON,
    "updated_at": NOON,
    "version": 3,
}
LIVE = {"run_id": "live", "state": "RUNNING", "teardown": "none", "capture": "none", **RUN}
OVER = {"run_id": "over", "state": "FAILED", "teardown": "done", "capture": "done", **RUN}
ROWS: Mapping[str, list[dict[str, object]]] = {
    "facts": [{"name": "control_plane_id", "value": "plane"}],
    "users": [
        {
            "user_id": "u1",
            "name": "Ada",
            "email": "ada@example.com",
            "is_admin": True,
            "slug": "ada",
            "created_at": NOON,
        }
    ],
    "teams": [{"team_id": "t1", "name": "Team", "slug": "team", "created_at": NOON}],
    "members": [{"team_id": "t1", "user_id": "u1"}],
    "api_keys": [
        {
            "key_id": "k1",
            "digest": hashlib.sha256(TOKEN.encode()).hexdigest(),
            "prefix": "pdk_o",
            "name": "laptop",
            "user_id": "u1",
            "created_at": NOON,
        }
    ],
    "wallets": [{"wallet_id": "team/t1", "balance_microusd": -7, "is_on_demand_enabled": True}],
    "counters": [{"name": "queue", "value": 12}],
    "leases": [{"name": "shard/00", "holder": "old", "token": 41, "expires_at": NOON}],
    "stack_files": [{"stack": "live", "text": "config: {}\n", "updated_at": NOON}],
    "runs": [LIVE, OVER],
    "attempts": [
        {"run_id": run, "attempt": 1, "state": "RUNNING", "reason": "", "created_at": NOON}
        for run in ("live", "over")
    ],
    "events": [
        {"run_id": "live", "attempt": 1, "time": NOON, "kind": "state", "message": "it begins"}
    ],
    "idempotency_keys": [
        {"user_id": "u1", "key": "k", "digest": "d", "run_id": "live", "created_at": NOON}
    ],
    "usage_intervals": [
        {
            "run_id": "live",
            "attempt": 1,
            "source": "pod",
            "gpu_type": "H100_80GB",
            "num_gpus": 8,
            "price_microusd_per_gpu_hour": 2_490_001,
            "started_at": NOON,
        }
    ],
    "ledger": [
        {
            "wallet_id": "team/t1",
            "key": kind,
            "kind": kind,
            "amount_microusd": amount,
            "note": "",
            "time": NOON,
        }
        for kind, amount in (("CREDIT", 93), ("DEBIT", -100))
    ],
    "volumes": [
        {
            "volume_id": "v1",
            "name": "shelf",
            "owner": "user/u1",
            "user_id": "u1",
            "size": "1Ti",
            "cluster": "east",
            "claim_name": "pvc-1",
            "status": "RUNNING",
            "reason": "",
            "created_at": NOON,
        }
    ],
}


def make_old(url: str, revision: str) -> None:
    """Make a database of an old revision, with a row of each kind."""
    engine = create_engine(read_url(url))
    with engine.begin() as connection:
        _migrate(connection, revision)
        for table, rows in ROWS.items():
            for row in rows:
                names = ", ".join(f'"{one}"' for one in row)
                values = ", ".join(f":{one}" for one in row)
                connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)
    engine.dispose()


def _migrate(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", migrations.__path__[0])
    scripts = ScriptDirectory.from_config(config)

    def pending(current: object, _context: object) -> object:
        return scripts._upgrade_revs(revision, current)  # type: ignore[arg-type]  # alembic.command's own way

    with EnvironmentContext(config, scripts, fn=pending) as environment:
        environment.configure(connection=connection)
        environment.run_migrations()


def kept(store: Store) -> dict[str, list[dict[str, object]]]:
    """Return the values of the rows that were there, as they are now."""
    with store.read() as tx:
        return {
            table: [
                {name: one[name] for name in row}
                for row, one in zip(
                    rows, tx.execute(text(f"SELECT * FROM {table}")).mappings(), strict=True
                )
            ]
            for table, rows in ROWS.items()
        }


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_rows_of_an_old_release_are_worked_with(
    new_url: str, revision: str, opened: Callable[[str], Store]
) -> None:
    make_old(new_url, revision)

    store = opened(new_url)

    assert kept(store) == ROWS
    assert store.control_plane_id == "plane"
    with store.write() as tx:
        assert schema.current_revision(tx) == schema.newest_revision()
        key = keys.find_key(tx, TOKEN)
        assert key is not None
        assert key.user_id == "u1"
        (live,) = live_runs(tx)
        assert (live.run_id, live.wish_reason, live.secret_names) == ("live", "", ("HF_TOKEN",))
        stopped = runs.compare_and_set(tx, "live", 3, state=RunState.STOPPED, wish_reason="why")
        assert stopped is not None
        events.add_event(tx, stopped, "state", state=stopped.state)
        operation = Operation(
            operation_id="o1", kind=OperationKind.DESTROY, run_id="live", attempt=1, cluster="east"
        )
        operations.begin(tx, operation, holder="new")
        credit = wallets.last_credit(tx, "team/t1")
        assert credit is not None
        assert wallets.balance_at(tx, "team/t1", credit.entry_id) == 93
    for statement in ("UPDATE events SET message = 'x'", "DELETE FROM ledger"):
        with pytest.raises(DBAPIError, match="append-only"), store.write() as tx:
            tx.execute(text(statement))


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("user", "list")])
def test_an_older_release_leaves_a_newer_database_alone(
    sqlite_url: str, command: tuple[str, ...]
) -> None:
    store = open_store(sqlite_url)
    with store.write() as tx:
        tx.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()

    argv = [PADDOCK, *command, "--database", sqlite_url]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert said.returncode == 1
    assert said.stdout == ""
    assert "Traceback" not in said.stderr
    assert "is at revision 9999" in said.stderr
    assert "a newer release has upgraded it; install that one, or restore a backup" in said.stderr
