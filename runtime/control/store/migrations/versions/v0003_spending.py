"""Keep why a wish was made, and find a wallet's last credit without reading its debits."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column and the index."""
    op.execute("ALTER TABLE runs ADD COLUMN wish_reason TEXT NOT NULL DEFAULT ''")
    op.execute(
        "CREATE INDEX ix_ledger_wallet_id_kind_entry_id ON ledger (wallet_id, kind, entry_id)"
    )
