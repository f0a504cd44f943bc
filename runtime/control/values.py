"""What the control plane keeps, as frozen values: users, runs, leases, usage, money, volumes.

Plain data without a database; `runtime.control.store` reads and writes it, the API, the reconciler
and billing pass it on. Times are aware datetimes in UTC, money is integers of micro-dollars.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import JsonValue

from runtime.run_record import ExitDetails
from runtime.states import Capture, RunState, Teardown, is_terminal

MICROUSD_PER_USD = 1_000_000


class Wish(StrEnum):
    """What a person wants of a run; the reconciler brings the run there."""

    RUN = "RUN"
    STOP = "STOP"
    PAUSE = "PAUSE"
    DELETE = "DELETE"


class VolumeStatus(StrEnum):
    """Where a volume is, in the words of the `prime` client: RUNNING means ready."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    TERMINATING = "TERMINATING"
    TOMBSTONED = "TOMBSTONED"


class EntryKind(StrEnum):
    """Why money moved."""

    CREDIT = "CREDIT"
    DEBIT = "DEBIT"


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """A person, or a program that acts as one."""

    user_id: str
    name: str
    email: str
    is_admin: bool = False
    slug: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """Users who see one another's runs and share a wallet."""

    team_id: str
    name: str
    slug: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """An API key without its token; one of a team acts for that team where none is named."""

    key_id: str
    user_id: str
    team_id: str | None = None
    name: str
    prefix: str
    """The token's first characters, by which its owner tells keys apart."""
    created_at: datetime
    revoked_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NewRun:
    """A run as it is dispatched."""

    run_id: str
    user_id: str
    team_id: str | None = None
    name: str
    model: str
    environments: tuple[str, ...] = ()
    config_text: str
    """The TOML as the user wrote it."""
    config_digest: str
    plan_json: str
    settings: Mapping[str, JsonValue] = field(default_factory=dict)
    """The stack's settings without `paddock:` and without secrets."""
    secret_names: tuple[str, ...] = ()
    cluster: str | None = None
    gpu_type: str | None = None
    num_gpus: int
    max_steps: int | None = None
    state: RunState = RunState.QUEUED
    reason: str = ""
    attempt: int = 1
    queue_number: int | None = None
    """Place in the queue, of `runtime.control.store.queue`; a smaller one is earlier."""
    is_adopted: bool = False
    """Made by `pulumi up` or GitOps: observed and metered; changed by the server only where it can
    open the stack (`runtime.control.known_stacks`)."""
    max_spend_microusd: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRun(NewRun):
    """A run as the store holds it; `version` counts its writes (compare-and-set)."""

    wish: Wish = Wish.RUN
    wish_reason: str = ""
    """Why it is wished, where that is more than that a person asked: a limit that was reached."""
    teardown: Teardown = Teardown.NONE
    capture: Capture = Capture.NONE
    exit_details: ExitDetails | None = None
    """How the component ended that a failure is named after."""
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    """When the current attempt was RUNNING first."""
    ended_at: datetime | None = None
    deleted_at: datetime | None = None
    """When it was deleted: out of every list, kept for billing."""
    version: int = 1

    @property
    def is_over(self) -> bool:
        """Tell whether the current attempt has ended for good."""
        return is_terminal(self.state)

    @property
    def is_driven(self) -> bool:
        """Tell whether this control plane began the current attempt, or is to begin it."""
        return not self.is_adopted or self.settings.get("attempt") == self.attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt of a run, the current one or an earlier one."""

    run_id: str
    attempt: int
    state: RunState
    reason: str = ""
    cluster: str | None = None
    gpu_type: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened to a run; events are only ever added."""

    event_id: int
    run_id: str
    attempt: int
    time: datetime
    kind: str
    """What happened: `state`, `wish`, `queue`, `teardown`, `notice` ..."""
    state: RunState | None = None
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A name that one holder has for a time; `token` tells it from every earlier holding."""

    name: str
    holder: str
    token: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageInterval:
    """A time during which something of a run held GPUs; open while it still does."""

    run_id: str
    attempt: int
    source: str
    """Uid of the pod, or name of the component; unique within the attempt."""
    gpu_type: str
    num_gpus: int
    price_microusd_per_gpu_hour: int
    started_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Wallet:
    """The money of a user or a team, and what it may be spent on."""

    wallet_id: str
    """`user/<user_id>` or `team/<team_id>`."""
    balance_microusd: int = 0
    is_on_demand_enabled: bool = True
    max_gpus_per_run: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerEntry:
    """One movement of money: positive into the wallet, negative out of it."""

    entry_id: int
    wallet_id: str
    key: str
    """What the entry is for; the store takes each key once."""
    kind: EntryKind
    amount_microusd: int
    run_id: str | None = None
    note: str = ""
    time: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Volume:
    """A volume that outlives runs; its name is unique within its user or team."""

    volume_id: str
    name: str
    user_id: str
    """Who made it."""
    team_id: str | None = None
    size: str
    """A Kubernetes quantity, e.g. 5Ti."""
    cluster: str
    claim_name: str
    """Its PersistentVolumeClaim, or its folder on the local target."""
    status: VolumeStatus = VolumeStatus.PENDING
    reason: str = ""
    created_at: datetime


def wallet_id_of(user_id: str, team_id: str | None) -> str:
    """Return the wallet that pays for what a user does, for a team where one is given."""
    return f"team/{team_id}" if team_id else f"user/{user_id}"
