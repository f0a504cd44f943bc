"""The tables of the newest schema, for building statements; no column holds a secret in clear.

The database itself is made by `migrations`; a test compares the two on SQLite and Postgres.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)

from runtime.control.operations import OperationKind, OperationState
from runtime.control.store.columns import Json, SafeText, Time, Word
from runtime.control.values import EntryKind, VolumeStatus, Wish
from runtime.states import Capture, RunState, Teardown

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# A key that counts up: SQLite gives out row ids only for INTEGER, which holds 64 bits there.
_SERIAL = BigInteger().with_variant(Integer(), "sqlite")


def _text(name: str, *, is_unique: bool = False) -> Column[str]:
    return Column(name, SafeText(), nullable=False, unique=is_unique or None)


def _time(name: str, *, is_optional: bool = False) -> Column[Any]:  # Any: a Time is a datetime
    return Column(name, Time(), nullable=is_optional)


def _user_id() -> Column[str]:
    return Column("user_id", SafeText(), ForeignKey("users.user_id"), nullable=False)


def _team_id() -> Column[str | None]:
    return Column("team_id", SafeText(), ForeignKey("teams.team_id"))


def _run_id(*, is_key: bool = False) -> Column[str]:
    run = ForeignKey("runs.run_id")
    return Column("run_id", SafeText(), run, nullable=False, primary_key=is_key)


facts = Table("facts", metadata, Column("name", SafeText(), primary_key=True), _text("value"))
"""What is true of the database as a whole: the control plane's id."""

users = Table(
    "users",
    metadata,
    Column("user_id", SafeText(), primary_key=True),
    _text("name"),
    _text("email", is_unique=True),
    Column("is_admin", Boolean(), nullable=False),
    _text("slug", is_unique=True),
    _time("created_at"),
)

teams = Table(
    "teams",
    metadata,
    Column("team_id", SafeText(), primary_key=True),
    _text("name"),
    _text("slug", is_unique=True),
    _time("created_at"),
)

members = Table(
    "members",
    metadata,
    Column("team_id", SafeText(), ForeignKey("teams.team_id"), primary_key=True),
    Column("user_id", SafeText(), ForeignKey("users.user_id"), primary_key=True),
    Index(None, "user_id"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", SafeText(), primary_key=True),
    _text("digest", is_unique=True),
    _text("prefix"),
    _text("name"),
    _user_id(),
    _team_id(),
    _time("created_at"),
    _time("revoked_at", is_optional=True),
    Index(None, "user_id"),
)

_IS_LIVE = (
    "deleted_at IS NULL AND NOT (state IN ('COMPLETED', 'FAILED', 'STOPPED') AND teardown = 'done'"
    " AND capture IN ('done', 'incomplete') AND wish <> 'DELETE')"
)
"""Whether the reconciler still has to do with a run; a column, so that old runs cost it nothing."""

_LISTED = ("deleted_at", "created_at", "run_id", "user_id", "team_id", "state", "cluster")
"""The order of lists, and all that `run_lists` filters by."""

runs = Table(
    "runs",
    metadata,
    Column("run_id", SafeText(), primary_key=True),
    _user_id(),
    _team_id(),
    _text("name"),
    _text("model"),
    Column("environments", Json(), nullable=False),
    _text("config_text"),
    _text("config_digest"),
    _text("plan_json"),
    Column("settings", Json(), nullable=False),
    Column("secret_names", Json(), nullable=False),
    Column("cluster", SafeText()),
    Column("gpu_type", SafeText()),
    Column("num_gpus", Integer(), nullable=False),
    Column("max_steps", BigInteger()),
    Column("state", Word(RunState), nullable=False),
    _text("reason"),
    Column("attempt", Integer(), nullable=False),
    Column("queue_number", BigInteger()),
    Column("is_adopted", Boolean(), nullable=False),
    Column("max_spend_microusd", BigInteger()),
    Column("wish", Word(Wish), nullable=False),
    Column("wish_reason", SafeText(), nullable=False, server_default=""),
    Column("teardown", Word(Teardown), nullable=False),
    Column("capture", Word(Capture), nullable=False),
    Column("exit_details", Json()),
    _time("created_at"),
    _time("updated_at"),
    _time("started_at", is_optional=True),
    _time("ended_at", is_optional=True),
    _time("deleted_at", is_optional=True),
    Column("version", Integer(), nullable=False),
    Column("is_live", Boolean(), Computed(_IS_LIVE, persisted=True), nullable=False),
    Index(None, "is_live", "created_at"),
    # every list counts and sorts within an index, without reading the rows' texts
    Index(None, "user_id", "deleted_at", "created_at", "run_id"),
    Index(None, "team_id", "deleted_at", "created_at", "run_id"),
    Index("ix_runs_listed", *_LISTED),
    Index(None, "state", "queue_number"),
)

attempts = Table(
    "attempts",
    metadata,
    _run_id(is_key=True),
    Column("attempt", Integer(), primary_key=True),
    Column("state", Word(RunState), nullable=False),
    _text("reason"),
    Column("cluster", SafeText()),
    Column("gpu_type", SafeText()),
    _time("created_at"),
    _time("started_at", is_optional=True),
    _time("ended_at", is_optional=True),
)

events = Table(
    "events",
    metadata,
    Column("event_id", _SERIAL, primary_key=True, autoincrement=True),
    _run_id(),
    Column("attempt", Integer(), nullable=False),
    _time("time"),
    _text("kind"),
    Column("state", Word(RunState)),
    _text("message"),
    Index(None, "run_id", "event_id"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", SafeText(), primary_key=True),
    _text("holder"),
    Column("token", BigInteger(), nullable=False),
    _time("expires_at"),
)

counters = Table(
    "counters",
    metadata,
    Column("name", SafeText(), primary_key=True),
    Column("value", BigInteger(), nullable=False),
)

# A key is claimed before its run is there, in the same transaction: no foreign key to runs.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("user_id", SafeText(), ForeignKey("users.user_id"), primary_key=True),
    Column("key", SafeText(), primary_key=True),
    _text("digest"),
    _text("run_id"),
    _time("created_at"),
)

usage_intervals = Table(
    "usage_intervals",
    metadata,
    _run_id(is_key=True),
    Column("attempt", Integer(), primary_key=True),
    Column("source", SafeText(), primary_key=True),
    _text("gpu_type"),
    Column("num_gpus", Integer(), nullable=False),
    Column("price_microusd_per_gpu_hour", BigInteger(), nullable=False),
    _time("started_at"),
    _time("ended_at", is_optional=True),
)

wallets = Table(
    "wallets",
    metadata,
    Column("wallet_id", SafeText(), primary_key=True),
    Column("balance_microusd", BigInteger(), nullable=False),
    Column("is_on_demand_enabled", Boolean(), nullable=False),
    Column("max_gpus_per_run", BigInteger()),
)

ledger = Table(
    "ledger",
    metadata,
    Column("entry_id", _SERIAL, primary_key=True, autoincrement=True),
    Column("wallet_id", SafeText(), ForeignKey("wallets.wallet_id"), nullable=False),
    _text("key", is_unique=True),
    Column("kind", Word(EntryKind), nullable=False),
    Column("amount_microusd", BigInteger(), nullable=False),
    Column("run_id", SafeText(), ForeignKey("runs.run_id")),
    _text("note"),
    _time("time"),
    Index(None, "wallet_id", "entry_id"),
    Index(None, "wallet_id", "kind", "entry_id"),
    Index(None, "run_id"),
)

volumes = Table(
    "volumes",
    metadata,
    Column("volume_id", SafeText(), primary_key=True),
    _text("name"),
    _text("owner"),  # `user/<user_id>` or `team/<team_id>`: names are unique within it
    _user_id(),
    _team_id(),
    _text("size"),
    _text("cluster"),
    _text("claim_name"),
    Column("status", Word(VolumeStatus), nullable=False),
    _text("reason"),
    _time("created_at"),
    UniqueConstraint("owner", "name"),
)

stack_files = Table(
    "stack_files",
    metadata,
    Column("stack", SafeText(), primary_key=True),
    _text("text"),
    _time("updated_at"),
)

operations = Table(
    "operations",
    metadata,
    _run_id(is_key=True),
    _text("operation_id", is_unique=True),
    Column("kind", Word(OperationKind), nullable=False),
    Column("attempt", Integer(), nullable=False),
    _text("cluster"),
    _text("holder"),
    Column("state", Word(OperationState), nullable=False),
    Column("recovers", Word(OperationKind)),
    Column("num_tries", Integer(), nullable=False),
    _text("code"),
    _text("message"),
    Column("is_retryable", Boolean(), nullable=False),
    _time("started_at"),
    _time("finished_at", is_optional=True),
)
