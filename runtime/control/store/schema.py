"""The schema's upgrades: run when a database is opened, by one process at a time.

A migration is a module of `migrations.versions`. All that are missing run in one transaction, so a
crash leaves the old schema or the new one. There is no way down: a backup is.
"""

from pathlib import Path

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from runtime.control.store.tables import metadata
from runtime.errors import StoreError

_MIGRATIONS = Path(__file__).with_name("migrations")
_LOCK_ID = 0x7061_6464_6F63_6B00
"""Of Postgres' advisory lock on upgrades; the letters of `paddock`."""


def newest_revision() -> str:
    """Return the revision that this release works with."""
    return _scripts(Config()).get_current_head() or ""


def current_revision(connection: Connection) -> str | None:
    """Return the revision of a database, None where nothing has been made yet."""
    return MigrationContext.configure(connection).get_current_revision()


def check_revision(connection: Connection, database: str) -> bool:
    """Tell whether the database is at the newest revision; `database` names it in errors.

    Raises StoreError where a newer release made it, or something else than paddock.
    """
    revision = current_revision(connection)
    if revision is None:
        strange = set(inspect(connection).get_table_names()) & set(metadata.tables)
        if strange:
            raise StoreError(
                f"{database} has tables that paddock did not make ({', '.join(sorted(strange))}): "
                "name a database of paddock's own"
            )
        return False
    known = {script.revision for script in _scripts(Config()).walk_revisions()}
    if revision not in known:
        raise StoreError(
            f"{database} is at revision {revision}, this release knows up to {newest_revision()}: "
            "a newer release has upgraded it; install that one, or restore a backup"
        )
    return revision == newest_revision()


def upgrade(connection: Connection, database: str) -> None:
    """Bring the database to the newest revision, in the transaction of the connection.

    On Postgres under an advisory lock; on SQLite a write transaction locks the whole database.
    """
    if connection.dialect.name == "postgresql":
        for limit in ("lock_timeout", "statement_timeout"):  # many rows take what they take
            connection.execute(text(f"SET LOCAL {limit} = 0"))
        connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": _LOCK_ID})
    if check_revision(connection, database):  # somebody else was faster
        return
    config = Config()
    scripts = _scripts(config)

    def pending(revision: object, context: MigrationContext) -> object:
        return scripts._upgrade_revs("head", revision)  # type: ignore[arg-type]  # alembic.command's own way

    with EnvironmentContext(config, scripts, fn=pending) as environment:
        environment.configure(connection=connection, target_metadata=metadata)
        environment.run_migrations()


def _scripts(config: Config) -> ScriptDirectory:
    config.set_main_option("script_location", str(_MIGRATIONS))
    return ScriptDirectory.from_config(config)
