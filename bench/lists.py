"""How long lists of runs take over HTTP, with many runs stored and many live; and what memory.

    python -m bench.lists --stored 10000 --live 500

A server with the real store, API and reconciler serves runs that were put into the store directly.
The cluster is fake, so that its passes over the live runs are the control plane's own work; they go
on while lists are asked for. The floor is the same page by plain SQL and `json`. Prints one JSON
line a list; 1 where the p99 of one is over the limit, or where a pass is more than linear.
"""

import argparse
import json
import math
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import httpx

from bench.reconciler import IdleOperator, RunningPlaces, exponent, fill, measure
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.reconciler import Reconciler
from runtime.control.services import Services
from runtime.control.store import keys, tables, users
from runtime.control.store.store import Store, open_store
from runtime.control.stored_services import StoredAccounts, StoredRuns, StoreHealth

LIMIT_MS = 100.0
MAX_EXPONENT = 1.2
NUM_REQUESTS = 300
NUM_OTHERS = 20
EXAMPLE = Path(__file__).parents[1] / "examples" / "reverse-text.toml"


def main(argv: Sequence[str] | None = None) -> int:
    """Print milliseconds a list; 1 where one is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stored", type=int, default=10_000, help="runs that are over")
    parser.add_argument("--live", type=int, default=500, help="runs that run")
    parser.add_argument("--requests", type=int, default=NUM_REQUESTS)
    parser.add_argument("--serve", metavar="DATABASE", help="be the server of a bench")
    asked = parser.parse_args(argv)
    if asked.serve:
        return serve(asked.serve)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "control.db"
        token, team_id = make(path, num_live=asked.live, num_stored=asked.stored)
        worst = bench_lists(path, token, team_id, num_requests=asked.requests)
        slope = bench_passes(path, asked.live)
    told = {"worst_p99_ms": worst, "limit_ms": LIMIT_MS, "pass_exponent": slope}
    print(json.dumps({**told, "load": os.getloadavg()[0], "cpus": os.cpu_count()}))
    return 0 if worst <= LIMIT_MS and slope <= MAX_EXPONENT else 1


def make(path: Path, *, num_live: int, num_stored: int) -> tuple[str, str]:
    """Fill a database: half of the runs are one user's, a quarter those of the user's team."""
    store = open_store(f"sqlite:///{path}")
    fill(store, num_live, num_stored)
    text = EXAMPLE.read_text()
    run_ids, (owner_id,) = _ids(path, "runs", "run_id"), _ids(path, "users", "user_id")
    with store.write() as tx:
        team = users.add_team(tx, name="bench")
        users.add_member(tx, team.team_id, owner_id)
        others = [
            users.add_user(tx, name=f"u{number}", email=f"u{number}@example.org")
            for number in range(NUM_OTHERS)
        ]
        for number, run_id in enumerate(run_ids):
            other = others[number % NUM_OTHERS].user_id
            tx.execute(
                tables.runs.update()
                .where(tables.runs.c.run_id == run_id)
                .values(
                    user_id=owner_id if number % 2 else other,
                    team_id=team.team_id if number % 4 == 0 else None,
                    config_text=f"{text}\n# {run_id}\n",  # no two runs have one text
                )
            )
        _, token = keys.add_key(tx, user_id=owner_id, name="bench")
    store.close()
    return token, team.team_id


def bench_lists(path: Path, token: str, team_id: str, *, num_requests: int) -> float:
    """Print the times of each list, and what the server's memory is; return the worst p99."""
    last_page = (_num_runs(path) // 4) // 20 - 1
    lists = {
        "all": "/api/v1/rft/runs?page=1&limit=20",
        "mine": "/api/v1/rft/runs?page=1&limit=20&mine=true",
        "team": f"/api/v1/rft/runs?page=1&limit=20&team_id={team_id}",
        "far page": f"/api/v1/rft/runs?page={last_page}&limit=20",
        "dashboard": "/dashboard",
    }
    floor = _times(lambda: _plain(path), num_requests)
    print(json.dumps({"list": "floor: plain SQL", **floor}), flush=True)
    worst = 0.0
    with _server(path) as (url, process), httpx.Client(base_url=url, timeout=60) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        client.cookies.set("paddock_key", token, path="/dashboard")
        before = _memory_mib(process.pid)
        for name, address in lists.items():

            def ask(address: str = address) -> None:
                answer = client.get(address)
                assert answer.status_code == 200, answer.text

            found = _times(ask, num_requests)
            worst = max(worst, found["p99_ms"])
            print(json.dumps({"list": name, **found}), flush=True)
        print(json.dumps({"server_mib": {"before": before, "after": _memory_mib(process.pid)}}))
    return worst


def bench_passes(path: Path, num_live: int) -> float:
    """Print the CPU time of a pass over ever fewer live runs; return the exponent of a fit."""
    times = {}
    store = open_store(f"sqlite:///{path}")
    for size in (num_live, num_live // 2, num_live // 4):
        with store.write() as tx:
            is_over = (
                tables.runs.c.run_id >= f"run-{size:05d}"
            )  # they are numbered, live ones first
            over = {"state": "COMPLETED", "teardown": "done", "capture": "done"}
            tx.execute(tables.runs.update().where(is_over).values(over))
        with LeaseKeeper(store, "bench") as keeper:
            times[size], wall_ms = measure(store, keeper)
        told = {"live": size, "pass_cpu_ms": round(times[size], 1)}
        print(json.dumps({**told, "pass_wall_ms": round(wall_ms, 1)}), flush=True)
    store.close()
    return round(exponent(times), 2)


def serve(database: str) -> int:
    """Serve the API and run passes until the end of stdin."""
    from runtime.control.app import create_app, make_server

    store = open_store(f"sqlite:///{database}")
    is_over = threading.Event()
    with LeaseKeeper(store, "bench") as keeper, socket.create_server(("127.0.0.1", 0)) as listener:
        reconciler = Reconciler(
            store=store, places=RunningPlaces(), operator=IdleOperator(), keeper=keeper
        )
        passes = threading.Thread(target=reconciler.run, args=(is_over,))
        server = make_server(create_app(_services(store)))
        serving = threading.Thread(target=server.run, args=([listener],))
        for thread in (passes, serving):
            thread.start()
        print(listener.getsockname()[1], flush=True)
        sys.stdin.read()
        is_over.set()
        server.should_exit = True
        for thread in (passes, serving):
            thread.join()
        reconciler.close()
    store.close()
    return 0


def _services(store: Store) -> Services:
    nothing = cast(Any, None)  # lists ask for accounts and runs only
    return Services(
        accounts=StoredAccounts(store),
        runs=StoredRuns(store),
        health=StoreHealth(store),
        dispatcher=nothing,
        intents=nothing,
        reads=nothing,
        catalog=nothing,
        volumes=nothing,
        feedback=nothing,
    )


@contextmanager
def _server(path: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    command = [sys.executable, "-m", "bench.lists", "--serve", str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        yield f"http://127.0.0.1:{port}", process
        process.stdin.close()


def _plain(path: Path) -> None:
    """Read the newest page as a list does, count, and write it as JSON."""
    with closing(sqlite3.connect(path)) as connection:
        page = "SELECT run_id FROM runs ORDER BY created_at DESC, run_id DESC LIMIT 20"
        rows = connection.execute(f"SELECT * FROM runs WHERE run_id IN ({page})").fetchall()  # noqa: S608 - no input
        connection.execute("SELECT count(*) FROM runs").fetchone()
        json.dumps(rows)


def _times(ask: Callable[[], None], number: int) -> dict[str, float]:
    """Return what a call takes at the median and at the 99th percentile, in milliseconds."""
    taken = []
    for _ in range(number):
        began = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    p99 = taken[math.ceil(0.99 * len(taken)) - 1]
    return {"p50_ms": round(statistics.median(taken), 1), "p99_ms": round(p99, 1)}


def _ids(path: Path, table: str, column: str) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        query = f"SELECT {column} FROM {table} ORDER BY {column}"  # noqa: S608 - no input
        return [row[0] for row in connection.execute(query)]


def _num_runs(path: Path) -> int:
    return len(_ids(path, "runs", "run_id"))


def _memory_mib(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (size,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(size) // 1024


if __name__ == "__main__":
    sys.exit(main())
