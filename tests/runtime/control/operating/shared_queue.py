"""Two servers of one host on one Postgres, and a journal of all that they do with runs.

Stacks are in an S3, since a folder would let in one server only; the database itself notes every
operation, so that none is missed.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg

from runtime.control.lease_keeper import SHARDS, shard_of
from runtime.control.operations import OperationKind, server_lease
from runtime.control.store import events, keys, leases, runs
from runtime.control.store.store import Store, open_store
from runtime.control.values import StoredRun
from runtime.local_state import read_json
from runtime.observe.local import read_components
from runtime.states import Capture, RunState, Teardown
from tests.engine.sites import Site, make_site
from tests.runtime.control.crashing.plane import PREPARE
from tests.runtime.control.operating.served import Served
from tests.runtime.control.postgres import made_database
from tests.runtime.control.reading.s3 import BUCKET, serving_s3
from tests.runtime.control.store.rows import add_user
from tests.waiting import wait_for

CAPACITY = 3
SLOTS_A_RUN = 2
SETTLED_S = 120.0
LOOK_S = 0.5
SLOT_LOOK_S = 0.02

_JOURNAL = """
CREATE TABLE performed (
    number bigserial, time timestamptz DEFAULT clock_timestamp(), run_id text,
    operation_id text, kind text, holder text, state text, message text
);
CREATE FUNCTION note_operation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO performed (run_id, operation_id, kind, holder, state, message)
    VALUES (NEW.run_id, NEW.operation_id, NEW.kind, NEW.holder, NEW.state, NEW.message);
    RETURN NULL;
END $$;
CREATE TRIGGER performed AFTER INSERT OR UPDATE ON operations
    FOR EACH ROW EXECUTE FUNCTION note_operation();
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Performed:
    """A state of an operation, as it was written: `running`, `done` or `failed`."""

    time: float
    run_id: str
    operation_id: str
    kind: OperationKind
    holder: str
    state: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """When a run's stack was made, when it was promoted, when its processes lived, its end."""

    run_id: str
    made: float
    promoted: float
    event_id: int
    began: float
    ended: float
    over: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedQueue:
    """A machine on which three runs fit, for two servers; each of two users has a token."""

    site: Site
    store: Store
    url: str
    tokens: tuple[str, str]

    def leases(self) -> dict[str, str]:
        """Return who has each lease that somebody has."""
        with self.store.read() as tx:
            return {one.name: one.holder for one in leases.list_held(tx)}

    def holders(self) -> dict[str, int]:
        """Return the servers that live, and how many shards of runs each of them has."""
        held = self.leases()
        living = [holder for name, holder in held.items() if name == server_lease(holder)]
        return {one: sum(held.get(name) == one for name in SHARDS) for one in living}

    def holder_of(self, served: Served) -> str:
        """Return the name by which a server is known in the database."""
        (found,) = [one for one in self.holders() if f"-{served.process.pid}-" in one]
        return found

    def is_of(self, served: Served, run_id: str) -> bool:
        """Tell whether a server is the one that brings a run to its end."""
        return self.leases().get(shard_of(run_id)) == self.holder_of(served)

    def share(self) -> None:
        """Wait until both servers have half of the runs to be."""
        half = len(SHARDS) // 2
        wait_for(lambda: list(self.holders().values()) == [half, half], timeout_s=SETTLED_S)

    def dispatch(self, served: Served, number: int, seconds: float) -> str:
        """Dispatch a run that sleeps, by one of the users, and return its id."""
        behaviour = f"ends-{round(seconds * 1000)}"
        text = self.site.write_toml(f"run-{number}", behaviour).read_text()
        answer = httpx.post(
            f"{served.url}/api/v1/training/runs",
            headers={"Authorization": f"Bearer {self.tokens[number // 2 % 2]}"},
            json={"configText": text},
            timeout=60.0,
        )
        assert answer.is_success, answer.text
        return str(answer.json()["runId"])

    def run(self, run_id: str) -> StoredRun:
        """Return a run as it is stored."""
        with self.store.read() as tx:
            found = runs.get_run(tx, run_id)
        assert found is not None
        return found

    def until_settled(self, run_ids: list[str], *, timeout_s: float) -> None:
        """Wait until every run is over, captured and torn down."""

        def is_settled() -> bool:
            time.sleep(LOOK_S)  # the servers have better to do than to answer this
            return all(
                run.is_over and run.teardown is Teardown.DONE and run.capture is Capture.DONE
                for run in map(self.run, run_ids)
            )

        try:
            wait_for(is_settled, timeout_s=timeout_s)
        except AssertionError:
            raise AssertionError("\n".join(map(self._words, run_ids))) from None

    def _words(self, run_id: str) -> str:
        run = self.run(run_id)
        done = self.operations(run_id)
        return f"{run_id} {run.state} ({run.reason}), {run.teardown}, {run.capture}: {done}"

    def performed(self, run_id: str | None = None) -> list[Performed]:
        """Return all that was written of operations, of all runs or of one, in its order."""
        query = (
            "SELECT extract(epoch FROM time)::float8, run_id, operation_id, kind, holder, state, "
            "message FROM performed ORDER BY number"
        )
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(query).fetchall()
        names = ("time", "run_id", "operation_id", "kind", "holder", "state", "message")
        found = [Performed(**dict(zip(names, row, strict=True))) for row in rows]
        return [one for one in found if run_id in {None, one.run_id}]

    def operations(self, run_id: str) -> str:
        """Return the kinds of the operations on a run's stack, and what those say that failed."""
        newest = {one.operation_id: one for one in self.performed(run_id)}
        return " ".join(
            f"{one.kind} ({one.message})" if one.state == "failed" else one.kind
            for one in newest.values()
        )

    def life(self, run_id: str) -> Life:
        """Return what became of a run that is over, by clocks that agree: all is on one host."""
        with self.store.read() as tx:
            told = events.list_events(tx, run_id)
        (promotion,) = [one for one in told if one.kind == "queue"]
        made = [one for one in self.performed(run_id) if (one.kind, one.state) == ("make", "done")]
        components = read_components(self.site.local_run(run_id).directory, 1)
        assert all(one.end is not None for one in components), components
        over = [
            one.time for one in self.site.record(run_id).times if one.state is RunState.COMPLETED
        ]
        return Life(
            run_id=run_id,
            made=made[0].time,
            promoted=promotion.time.timestamp(),
            event_id=promotion.event_id,
            began=min(one.start for one in components),
            ended=max(one.end or 0.0 for one in components),
            over=over[0].timestamp(),
        )

    def starts(self, run_id: str) -> dict[str, int]:
        """Return how often each component of a run was started, as the components counted it."""
        folder = self.site.local_run(run_id).directory.path / "starts"
        files = [path for path in folder.iterdir() if path.suffix != ".count"]
        return {path.name: len(path.read_text().splitlines()) for path in files}


@contextmanager
def shared_queue(folder: Path, postgres_url: str) -> Iterator[SharedQueue]:
    """Make the machine, its users and the database, for servers that are to be started."""
    url = f"{postgres_url}/{made_database(postgres_url, f'shared_queue_{uuid4().hex}')}"
    with serving_s3() as s3:
        extra = {
            **s3.environment,
            "PULUMI_BACKEND_URL": f"s3://{BUCKET}?endpoint={s3.url}&s3ForcePathStyle=true",
            "PULUMI_CONFIG_PASSPHRASE": "known to both",
            "PADDOCK_ARTIFACTS": str(folder / "artifacts"),
            "PADDOCK_DATABASE": url,
            "PADDOCK_PREPARE": PREPARE,
        }
        site = make_site(folder, slots=CAPACITY * SLOTS_A_RUN, extra=extra)
        site.pulumi("up", "-s", site.cluster)
        store = open_store(url)
        with psycopg.connect(url) as connection:
            connection.execute(_JOURNAL)
        try:
            tokens = (_new_token(store, "ada"), _new_token(store, "bob"))
            yield SharedQueue(site=site, store=store, url=url, tokens=tokens)
        finally:
            store.close()
            site.kill_everything()


def _new_token(store: Store, name: str) -> str:
    user = add_user(store, name)
    with store.write() as tx:
        return keys.add_key(tx, user_id=user.user_id, name="test")[1]


@dataclass(kw_only=True)
class SlotWatch:
    """Looks at the machine's slots all the time; `most` runs had some at once."""

    state: Path
    most: int = 0
    doubly: list[str] = field(default_factory=list)
    """What was seen of slots that two runs had."""

    def look(self) -> None:
        """Look once."""
        claims: Any = read_json(self.state / "claims.json") or []
        slots = [slot for claim in claims for slot in claim["slots"]]
        self.most = max(self.most, len({claim["run_id"] for claim in claims}))
        if len(slots) != len(set(slots)):
            self.doubly.append(str(claims))


@contextmanager
def watching_slots(state: Path) -> Iterator[SlotWatch]:
    """Look at the slots of a local cluster until the end of the block."""
    watch = SlotWatch(state=state)
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(SLOT_LOOK_S):
            watch.look()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        is_over.set()
        thread.join()
