"""Keep the newest operation on each run's stack, so that any server can take over after a crash."""

from alembic import op

revision = "0002"
down_revision = "0001"

_TABLE = """
CREATE TABLE operations (
    run_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    cluster TEXT NOT NULL,
    holder TEXT NOT NULL,
    state TEXT NOT NULL,
    recovers TEXT,
    num_tries INTEGER NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    is_retryable BOOLEAN NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    CONSTRAINT pk_operations PRIMARY KEY (run_id),
    CONSTRAINT uq_operations_operation_id UNIQUE (operation_id),
    CONSTRAINT fk_operations_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (run_id)
)
"""


def upgrade() -> None:
    """Make the table."""
    op.execute(_TABLE)
