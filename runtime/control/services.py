"""What the HTTP API asks of the rest of the control plane, as protocols.

The API decides who may ask and in which shape; these decide and do. The store, dispatch, lifecycle,
observation and billing implement them; nothing here knows HTTP, SQL or Pulumi.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from runtime.control.readings import (
    CachedModel,
    Checkpoint,
    Component,
    Distribution,
    GpuAvailability,
    Identity,
    LogPage,
    Progress,
    SamplePage,
    Usage,
)
from runtime.control.requests import (
    CreateRun,
    CreateVolume,
    FeedbackNote,
    LogQuery,
    ResumeRun,
    StepRange,
)
from runtime.control.store.run_lists import RunFilter, RunPage
from runtime.control.values import Event, StoredRun, User, Volume
from runtime.states import RunState


class Accounts(Protocol):
    """Users and their keys."""

    def identify(self, token: str) -> Identity | None:
        """Return whom an API key stands for, None for one that is unknown or revoked."""
        ...

    def find_user(self, user_id: str) -> User | None:
        """Return a user."""
        ...

    def balance_microusd(self, user_id: str, team_id: str | None) -> int:
        """Return what is in the wallet that pays for a user, or for a team where one is named."""
        ...


class Runs(Protocol):
    """Runs as they are stored; an administrator sees all, others their own and their teams'."""

    def find(self, user: User, run_id: str) -> StoredRun | None:
        """Return a run that a user may see, None for one that is missing, deleted or another's."""
        ...

    def page(self, wanted: RunFilter, *, offset: int, limit: int) -> RunPage:
        """Return one page of a list, newest first."""
        ...

    def num_ahead(self, run: StoredRun) -> int | None:
        """Return how many queued runs are before this one, None for one that is not queued."""
        ...

    def events(self, run: StoredRun) -> Sequence[Event]:
        """Return what happened to a run, the oldest first."""
        ...

    def volume_names(self, runs: Iterable[StoredRun]) -> Mapping[str, str]:
        """Return the users' names of the volumes of runs, by stack; one that is gone has none."""
        ...

    def num_by_state(self) -> Mapping[RunState, int]:
        """Return how many runs are in each state, over all users."""
        ...


class Dispatcher(Protocol):
    """Makes runs."""

    def create(self, user: User, request: CreateRun, idempotency_key: str | None) -> StoredRun:
        """Admit and store a run, fast; the slow work follows.

        Raises ConfigError, RefusedError, and ConflictError for a key that another request used.
        """
        ...


class Intents(Protocol):
    """Writes what a person wants of a run; each answers at once, or raises RunStateError."""

    def stop(self, user: User, run_id: str) -> StoredRun:
        """End a run; one that is over is returned as it is."""
        ...

    def pause(self, user: User, run_id: str) -> StoredRun:
        """Checkpoint a run and let its GPUs go."""
        ...

    def resume(self, user: User, run_id: str, request: ResumeRun) -> StoredRun:
        """Go on from the last checkpoint, as a new attempt."""
        ...

    def restart(self, user: User, run_id: str) -> StoredRun:
        """End a running run and go on from its last checkpoint, as a new attempt."""
        ...

    def delete(self, user: User, run_id: str) -> None:
        """End a run if it lives, and forget it."""
        ...


class Reads(Protocol):
    """What a run has written, the same while it runs and after its teardown."""

    def logs(self, run: StoredRun, query: LogQuery) -> LogPage:
        """Return log lines; raises NotFoundError for a component that the run has not."""
        ...

    def metrics(self, run: StoredRun, steps: StepRange) -> Sequence[Mapping[str, JsonValue]]:
        """Return rows of metrics, oldest first."""
        ...

    def samples(self, run: StoredRun, *, step: int, offset: int, limit: int) -> SamplePage:
        """Return rollouts of a step."""
        ...

    def progress(self, run: StoredRun) -> Progress:
        """Return how far the run is."""
        ...

    def distribution(self, run: StoredRun, *, kind: str | None, step: int | None) -> Distribution:
        """Return a histogram; no kind = reward, no step = the latest."""
        ...

    def checkpoints(self, run: StoredRun) -> tuple[Checkpoint, ...]:
        """Return all checkpoints, oldest first."""
        ...

    def components(self, run: StoredRun) -> tuple[Component, ...]:
        """Return all components of the current attempt."""
        ...

    def usage(self, run: StoredRun) -> Usage:
        """Return what the run has used."""
        ...


class Catalog(Protocol):
    """What can be had, for a user or one of the user's teams."""

    def models(self, user: User, team_id: str | None) -> tuple[CachedModel, ...]:
        """Return the models that start warm."""
        ...

    def gpus(self, user: User, team_id: str | None) -> tuple[GpuAvailability, ...]:
        """Return the GPU types."""
        ...


class Volumes(Protocol):
    """The volumes of a user, or of a team; raise NotFoundError and SettingsError."""

    def page(self, user: User, team_id: str | None) -> tuple[Volume, ...]:
        """Return all of them."""
        ...

    def create(self, user: User, request: CreateVolume) -> Volume:
        """Make one; ConflictError where the name is taken."""
        ...

    def expand(self, user: User, name: str, *, size: str, team_id: str | None) -> Volume:
        """Make one larger."""
        ...

    def delete(self, user: User, name: str, *, team_id: str | None) -> None:
        """Delete one; RunStateError while a run uses it."""
        ...


class Feedback(Protocol):
    """Where users' notes go."""

    def add(self, user: User, note: FeedbackNote) -> None:
        """Keep a note."""
        ...


class Health(Protocol):
    """Whether the control plane can work."""

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong now, in words without secrets; empty = ready."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """Everything that the API stands on."""

    accounts: Accounts
    runs: Runs
    dispatcher: Dispatcher
    intents: Intents
    reads: Reads
    catalog: Catalog
    volumes: Volumes
    feedback: Feedback
    health: Health
