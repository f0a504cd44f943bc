"""Make every table of the first release, and keep its two journals append-only.

Plain SQL that both databases read alike, but for keys that count up and for triggers; later changes
of `tables` never reach it.
"""

from alembic import op

revision = "0001"
down_revision = None

_TABLES = """
CREATE TABLE counters (
    name TEXT NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT pk_counters PRIMARY KEY (name)
);
CREATE TABLE facts (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    CONSTRAINT pk_facts PRIMARY KEY (name)
);
CREATE TABLE leases (
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    token BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    CONSTRAINT pk_leases PRIMARY KEY (name)
);
CREATE TABLE stack_files (
    stack TEXT NOT NULL,
    text TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    CONSTRAINT pk_stack_files PRIMARY KEY (stack)
);
CREATE TABLE teams (
    team_id TEXT NOT NULL,
    name TEXT NOT NULL,
    slug TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_teams PRIMARY KEY (team_id),
    CONSTRAINT uq_teams_slug UNIQUE (slug)
);
CREATE TABLE users (
    user_id TEXT NOT NULL,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    is_admin BOOLEAN NOT NULL,
    slug TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_users PRIMARY KEY (user_id),
    CONSTRAINT uq_users_email UNIQUE (email),
    CONSTRAINT uq_users_slug UNIQUE (slug)
);
CREATE TABLE wallets (
    wallet_id TEXT NOT NULL,
    balance_microusd BIGINT NOT NULL,
    is_on_demand_enabled BOOLEAN NOT NULL,
    max_gpus_per_run BIGINT,
    CONSTRAINT pk_wallets PRIMARY KEY (wallet_id)
);
CREATE TABLE api_keys (
    key_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    prefix TEXT NOT NULL,
    name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    team_id TEXT,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    CONSTRAINT pk_api_keys PRIMARY KEY (key_id),
    CONSTRAINT uq_api_keys_digest UNIQUE (digest),
    CONSTRAINT fk_api_keys_user_id FOREIGN KEY(user_id) REFERENCES users (user_id),
    CONSTRAINT fk_api_keys_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id)
);
CREATE TABLE idempotency_keys (
    user_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    digest TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_idempotency_keys PRIMARY KEY (user_id, "key"),
    CONSTRAINT fk_idempotency_keys_user_id FOREIGN KEY(user_id) REFERENCES users (user_id)
);
CREATE TABLE members (
    team_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    CONSTRAINT pk_members PRIMARY KEY (team_id, user_id),
    CONSTRAINT fk_members_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id),
    CONSTRAINT fk_members_user_id FOREIGN KEY(user_id) REFERENCES users (user_id)
);
CREATE TABLE runs (
    run_id TEXT NOT NULL,
    user_id TEXT NOT NULL,
    team_id TEXT,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    environments TEXT NOT NULL,
    config_text TEXT NOT NULL,
    config_digest TEXT NOT NULL,
    plan_json TEXT NOT NULL,
    settings TEXT NOT NULL,
    secret_names TEXT NOT NULL,
    cluster TEXT,
    gpu_type TEXT,
    num_gpus INTEGER NOT NULL,
    max_steps BIGINT,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    queue_number BIGINT,
    is_adopted BOOLEAN NOT NULL,
    max_spend_microusd BIGINT,
    wish TEXT NOT NULL,
    teardown TEXT NOT NULL,
    capture TEXT NOT NULL,
    exit_details TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    deleted_at BIGINT,
    version INTEGER NOT NULL,
    is_live BOOLEAN GENERATED ALWAYS AS (
        deleted_at IS NULL AND NOT (
            state IN ('COMPLETED', 'FAILED', 'STOPPED') AND teardown = 'done'
            AND capture IN ('done', 'incomplete') AND wish <> 'DELETE'
        )
    ) STORED NOT NULL,
    CONSTRAINT pk_runs PRIMARY KEY (run_id),
    CONSTRAINT fk_runs_user_id FOREIGN KEY(user_id) REFERENCES users (user_id),
    CONSTRAINT fk_runs_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id)
);
CREATE TABLE volumes (
    volume_id TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    user_id TEXT NOT NULL,
    team_id TEXT,
    size TEXT NOT NULL,
    cluster TEXT NOT NULL,
    claim_name TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    CONSTRAINT pk_volumes PRIMARY KEY (volume_id),
    CONSTRAINT uq_volumes_owner_name UNIQUE (owner, name),
    CONSTRAINT fk_volumes_user_id FOREIGN KEY(user_id) REFERENCES users (user_id),
    CONSTRAINT fk_volumes_team_id FOREIGN KEY(team_id) REFERENCES teams (team_id)
);
CREATE TABLE attempts (
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    cluster TEXT,
    gpu_type TEXT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    CONSTRAINT pk_attempts PRIMARY KEY (run_id, attempt),
    CONSTRAINT fk_attempts_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE events (
    event_id {serial} NOT NULL,
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    time BIGINT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT,
    message TEXT NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (event_id),
    CONSTRAINT fk_events_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE ledger (
    entry_id {serial} NOT NULL,
    wallet_id TEXT NOT NULL,
    "key" TEXT NOT NULL,
    kind TEXT NOT NULL,
    amount_microusd BIGINT NOT NULL,
    run_id TEXT,
    note TEXT NOT NULL,
    time BIGINT NOT NULL,
    CONSTRAINT pk_ledger PRIMARY KEY (entry_id),
    CONSTRAINT fk_ledger_wallet_id FOREIGN KEY(wallet_id) REFERENCES wallets (wallet_id),
    CONSTRAINT uq_ledger_key UNIQUE ("key"),
    CONSTRAINT fk_ledger_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE TABLE usage_intervals (
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    source TEXT NOT NULL,
    gpu_type TEXT NOT NULL,
    num_gpus INTEGER NOT NULL,
    price_microusd_per_gpu_hour BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    CONSTRAINT pk_usage_intervals PRIMARY KEY (run_id, attempt, source),
    CONSTRAINT fk_usage_intervals_run_id FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
"""

_INDEXES = """
CREATE INDEX ix_api_keys_user_id ON api_keys (user_id);
CREATE INDEX ix_members_user_id ON members (user_id);
CREATE INDEX ix_runs_listed
    ON runs (deleted_at, created_at, run_id, user_id, team_id, state, cluster);
CREATE INDEX ix_runs_is_live_created_at ON runs (is_live, created_at);
CREATE INDEX ix_runs_state_queue_number ON runs (state, queue_number);
CREATE INDEX ix_runs_team_id_deleted_at_created_at_run_id
    ON runs (team_id, deleted_at, created_at, run_id);
CREATE INDEX ix_runs_user_id_deleted_at_created_at_run_id
    ON runs (user_id, deleted_at, created_at, run_id);
CREATE INDEX ix_events_run_id_event_id ON events (run_id, event_id);
CREATE INDEX ix_ledger_run_id ON ledger (run_id);
CREATE INDEX ix_ledger_wallet_id_entry_id ON ledger (wallet_id, entry_id);
"""

_SERIAL = {"sqlite": "INTEGER", "postgresql": "BIGINT GENERATED BY DEFAULT AS IDENTITY"}
_JOURNALS = ("events", "ledger")

_POSTGRES_REFUSAL = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$
"""


def upgrade() -> None:
    """Make the tables, their indexes and the triggers."""
    dialect = op.get_bind().dialect.name
    for script in (_TABLES.format(serial=_SERIAL[dialect]), _INDEXES):
        for statement in filter(None, map(str.strip, script.split(";"))):
            op.execute(statement)
    if dialect == "postgresql":
        op.execute(_POSTGRES_REFUSAL)
    for table in _JOURNALS:
        if dialect == "postgresql":
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
                f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            )
            continue
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
