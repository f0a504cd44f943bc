"""The services of the API that are the store itself: accounts, runs, and whether it answers."""

import logging
from collections.abc import Iterable, Mapping

from runtime.control.known_clusters import VOLUME_PREFIX
from runtime.control.readings import Identity
from runtime.control.store import events, keys, queue, run_lists, users, volumes, wallets
from runtime.control.store.run_lists import RunFilter, RunPage
from runtime.control.store.store import Store
from runtime.control.values import Event, StoredRun, User, wallet_id_of
from runtime.errors import StoreError
from runtime.states import RunState

_LOG = logging.getLogger(__name__)


class StoredAccounts:
    """Users and their keys."""

    def __init__(self, store: Store) -> None:
        """Keep the store."""
        self._store = store

    def identify(self, token: str) -> Identity | None:
        """Return whom an API key stands for, None for one that is unknown or revoked."""
        with self._store.read() as connection:
            key = keys.find_key(connection, token)
            user = users.get_user(connection, key.user_id) if key else None
            if key is None or user is None:
                return None
            teams = users.list_teams(connection, user.user_id)
        return Identity(user=user, key=key, teams=tuple(teams))

    def find_user(self, user_id: str) -> User | None:
        """Return a user."""
        with self._store.read() as connection:
            return users.get_user(connection, user_id)

    def balance_microusd(self, user_id: str, team_id: str | None) -> int:
        """Return what is in the wallet that pays for a user, or for a team where one is named."""
        with self._store.read() as connection:
            return wallets.get_wallet(connection, wallet_id_of(user_id, team_id)).balance_microusd


class StoredRuns:
    """Runs as they are stored."""

    def __init__(self, store: Store) -> None:
        """Keep the store."""
        self._store = store

    def find(self, user: User, run_id: str) -> StoredRun | None:
        """Return a run that a user may see, None for one that is missing, deleted or another's."""
        with self._store.read() as connection:
            return run_lists.visible_run(connection, user, run_id)

    def page(self, wanted: RunFilter, *, offset: int, limit: int) -> RunPage:
        """Return one page of a list, newest first."""
        with self._store.read() as connection:
            return run_lists.list_runs(connection, wanted, limit=limit, offset=offset)

    def num_ahead(self, run: StoredRun) -> int | None:
        """Return how many queued runs are before this one, None for one that is not queued."""
        if run.state is not RunState.QUEUED or run.queue_number is None:
            return None
        with self._store.read() as connection:
            return queue.num_ahead(connection, run)

    def events(self, run: StoredRun) -> list[Event]:
        """Return what happened to a run, the oldest first."""
        with self._store.read() as connection:
            return events.list_events(connection, run.run_id)

    def volume_names(self, runs: Iterable[StoredRun]) -> Mapping[str, str]:
        """Return the users' names of the volumes of runs, by stack; one that is gone has none."""
        stacks = {str(stack) for run in runs if (stack := run.settings.get("volume"))}
        if not stacks:
            return {}
        # a stack of another name is a person's own, and has no other name
        ids = {one.removeprefix(VOLUME_PREFIX): one for one in stacks}
        names = {one: one for one in stacks if not one.startswith(VOLUME_PREFIX)}
        with self._store.read() as connection:
            found = volumes.names_of(connection, ids)
        return names | {ids[volume_id]: name for volume_id, name in found.items()}

    def num_by_state(self) -> Mapping[RunState, int]:
        """Return how many runs are in each state, over all users."""
        with self._store.read() as connection:
            return run_lists.num_by_state(connection)


class StoreHealth:
    """Whether the database answers."""

    def __init__(self, store: Store) -> None:
        """Keep the store."""
        self._store = store

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong now; empty = ready."""
        try:
            self._store.check()
        except StoreError as error:
            _LOG.error("not ready: %s", error)
            return ("the database does not answer",)
        return ()
