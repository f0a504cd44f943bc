"""RunDispatcher: a request to a queued run, with its stack under way; `services.Dispatcher`.

Everything that refuses a run is judged before anything is stored. Then one transaction stores the
run, its place in the queue and the operation that makes its stack; the secrets go to that operation
and are kept nowhere else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from pydantic import JsonValue
from sqlalchemy import Connection

from runtime.admission import admission_warnings
from runtime.cluster import ClusterProfile
from runtime.config import DispatchFlags, LoadedConfig, load_config
from runtime.control.dispatch_rules import (
    Choice,
    Judged,
    check_user,
    choose,
    judge,
    limits_of,
)
from runtime.control.known_clusters import VOLUME_PREFIX
from runtime.control.model_lists import ListedClusters
from runtime.control.notices import DISPATCH, WARNING
from runtime.control.operation_settings import made_settings
from runtime.control.operations import Operation, OperationKind, Operator, not_performed
from runtime.control.places import on_volume
from runtime.control.requests import CreateRun
from runtime.control.run_origin import FirstSteps, RunOrigin, find_origin, hold_volume
from runtime.control.store import (
    events,
    idempotency,
    operations,
    queue,
    runs,
    wallets,
)
from runtime.control.store.leases import LostLeaseError
from runtime.control.store.store import Store
from runtime.control.values import (
    Lease,
    NewRun,
    StoredRun,
    User,
    Volume,
    wallet_id_of,
)
from runtime.errors import ConfigError, PaddockError
from runtime.launch.notices import target_notices
from runtime.naming import new_run_id
from runtime.observe.snapshot import known_snapshot
from runtime.plan import build_plan, plan_to_json
from runtime.situation import UserLimits

_UNSAID = "waits for its turn"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDispatcher:
    """Makes runs; `holder` is this server, and `server` returns the lease by which it lives.

    Without `server` nothing fences what is begun: for tests. `first_steps` looks for checkpoints in
    clusters and in the artifact store; what lies on this machine is looked up without it.
    """

    store: Store
    clusters: ListedClusters
    operator: Operator
    holder: str
    server: Callable[[], Lease | None] | None = None
    first_steps: FirstSteps = lambda run: None

    def create(self, user: User, request: CreateRun, idempotency_key: str | None) -> StoredRun:
        """Admit and store a run, fast; its stack follows.

        Raises ConfigError, RefusedError, and ConflictError for a key that another request used.
        """
        wanted = _Wanted(user=user, request=request, key=idempotency_key)
        earlier = self._earlier(wanted)
        if earlier is not None:
            return earlier
        profiles = self.clusters.profiles()
        wanted.check_config(profiles.values())
        volume_name = wanted.load(is_lenient=True).dispatch.volume
        with self.store.read() as connection:
            origin = find_origin(connection, user, request, volume_name)
            limits = _user_limits(connection, wanted)
        judged = [
            self._judge(wanted, profile, origin=origin, limits=limits)
            for name, profile in sorted(profiles.items())
            if origin.allows(name) and wanted.is_readable_for(profile)
        ]
        return self._store(wanted, choose(judged), origin)

    def _store(self, wanted: "_Wanted", choice: Choice, origin: RunOrigin) -> StoredRun:
        lease = self.server() if self.server is not None else None
        if self.server is not None and lease is None:
            raise LostLeaseError("this server's own lease has run out: it takes no runs meanwhile")
        with self.store.write() as connection:
            if wanted.request_key is not None:
                first = idempotency.claim_key(connection, wanted.request_key, wanted.run_id)
                if first != wanted.run_id:
                    return _required(connection, first)
            number = queue.next_queue_number(connection)  # what is counted from here on holds
            check_user(choice.judged.plan, _user_limits(connection, wanted))
            hold_volume(connection, origin.volume)
            new = _new_run(wanted, choice, origin)
            run = runs.insert_run(connection, replace(new, queue_number=number))
            events.add_event(connection, run, "state", state=run.state, message=run.reason)
            for kind, message in _notices(wanted, choice):
                events.add_event(connection, run, kind, message=message)
            cluster = choice.judged.profile.name
            made = make_operation(run, cluster, self.store.control_plane_id)
            operation = replace(made, lease=lease, secrets=wanted.request.secrets)
            operations.begin(connection, operation, holder=self.holder)
        try:
            self.operator.start(operation)
        except PaddockError as error:  # this server is ending
            self._write_not_begun(wanted, operation, error)
            if operation.secrets:
                raise
        return run

    def _write_not_begun(
        self, wanted: "_Wanted", operation: Operation, error: PaddockError
    ) -> None:
        """Leave a run to the next server; one with secrets, which nobody has kept, is over."""
        report = not_performed(operation, error.code, str(error))
        with self.store.write() as connection:
            operations.finish(connection, replace(report, is_retryable=not operation.secrets))
            if operation.secrets and wanted.request_key is not None:
                idempotency.free_key(connection, wanted.request_key)

    def _earlier(self, wanted: "_Wanted") -> StoredRun | None:
        if wanted.request_key is None:
            return None
        with self.store.read() as connection:
            run_id = idempotency.find_run_id(connection, wanted.request_key)
            return _required(connection, run_id) if run_id is not None else None

    def _judge(
        self,
        wanted: "_Wanted",
        profile: ClusterProfile,
        *,
        origin: RunOrigin,
        limits: UserLimits,
    ) -> Judged:
        # the volumes of users are the store's, not those that a person has listed
        profile = profile.model_copy(update={"volumes": None})
        loaded = wanted.load(is_lenient=profile.allow_unknown_fields)
        plan = build_plan(loaded, run_id=wanted.run_id, profile=profile)
        plan = replace(plan, resume_from=wanted.request.resume_from)
        path, volume = None, origin.volume
        if volume is not None:
            path = self.clusters.volume_path(profile.name, volume_stack(volume))
            path = str(path or volume.claim_name)
            profile = on_volume(profile, plan, self.clusters, volume_stack(volume))
        snapshot = known_snapshot(
            plan,
            profile,
            volume_path=path,
            requested_environments=wanted.request.environments,
            secret_names=frozenset(wanted.request.secrets),
        )
        snapshot = self.clusters.models.completed(snapshot, plan, profile)
        if origin.source is not None and not snapshot.first_steps:
            found = self.first_steps(origin.source)
            if found is not None:
                snapshot = replace(snapshot, first_steps=found)
        wanted.warnings[profile.name] = admission_warnings(plan, profile, snapshot)
        return judge(plan, profile, snapshot, limits)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wanted:
    """A request of a user, under the id that its run will have."""

    user: User
    request: CreateRun
    key: str | None
    run_id: str = field(default_factory=new_run_id)
    warnings: dict[str, list[str]] = field(default_factory=dict)
    """What admission says of the run on each cluster that it was judged on."""
    _loaded: dict[bool, LoadedConfig] = field(default_factory=dict)

    @property
    def request_key(self) -> idempotency.RequestKey | None:
        if self.key is None:
            return None
        return idempotency.RequestKey(
            user_id=self.user.user_id, key=self.key, digest=self.request.digest
        )

    def load(self, *, is_lenient: bool) -> LoadedConfig:
        """Return the config, read once; `is_lenient` lets unknown fields pass."""
        if is_lenient not in self._loaded:
            request = self.request
            self._loaded[is_lenient] = load_config(
                request.config_text,
                flags=DispatchFlags(
                    image_tag=request.image_tag,
                    gpu_type=request.gpu_type,
                    volume=request.volume,
                    name=request.name,
                ),
                secret_names=frozenset(request.secrets),
                allow_unknown_fields=is_lenient,
            )
        return self._loaded[is_lenient]

    def is_readable_for(self, profile: ClusterProfile) -> bool:
        """Tell whether a cluster takes the config's fields, once `check_config` has read it."""
        return profile.allow_unknown_fields or False in self._loaded

    def check_config(self, profiles: Iterable[ClusterProfile]) -> None:
        """Raise ConfigError for what no cluster would take."""
        try:
            self._loaded[True] = self.load(is_lenient=False)  # nothing is unknown: they are equal
        except ConfigError:
            if not any(profile.allow_unknown_fields for profile in profiles):
                raise
            self.load(is_lenient=True)


def volume_stack(volume: Volume) -> str:
    """Return the name of a volume's stack."""
    return f"{VOLUME_PREFIX}{volume.volume_id}"


def make_operation(run: StoredRun, cluster: str, control_plane_id: str) -> Operation:
    """Return the operation that makes a run's stack for a cluster; without its secrets."""
    return Operation(
        operation_id=new_run_id(),
        kind=OperationKind.MAKE,
        run_id=run.run_id,
        attempt=run.attempt,
        cluster=cluster,
        settings=made_settings(run, cluster, control_plane_id),
    )


def _new_run(wanted: _Wanted, choice: Choice, origin: RunOrigin) -> NewRun:
    request, volume = wanted.request, origin.volume
    plan, profile = choice.judged.plan, choice.judged.profile
    loaded = wanted.load(is_lenient=profile.allow_unknown_fields)
    settings: dict[str, JsonValue] = {
        "imageTag": request.image_tag,
        "gpuType": request.gpu_type,
        "volume": volume_stack(volume) if volume is not None else None,
        "resumeFrom": request.resume_from,
        "environments": list(request.environments) or None,
    }
    return NewRun(
        run_id=plan.run_id,
        user_id=wanted.user.user_id,
        team_id=request.team_id,
        name=plan.name,
        model=plan.model,
        environments=plan.tasksets,
        config_text=loaded.text,
        config_digest=loaded.digest,
        plan_json=plan_to_json(plan),
        settings={key: value for key, value in settings.items() if value is not None},
        secret_names=tuple(sorted(request.secrets)),
        cluster=profile.name if choice.is_pinned or origin.is_bound else None,
        gpu_type=loaded.dispatch.gpu_type,
        num_gpus=plan.num_gpus,
        max_steps=plan.max_steps,
        max_spend_microusd=request.max_spend_microusd,
        reason=_UNSAID,
    )


def _notices(wanted: _Wanted, choice: Choice) -> list[tuple[str, str]]:
    """Return what the people of a run are told at dispatch, as kinds and messages of events."""
    plan, profile = choice.judged.plan, choice.judged.profile
    loaded = wanted.load(is_lenient=profile.allow_unknown_fields)
    said = [*map(str, loaded.notices), *target_notices(loaded.config, plan, profile)]
    warnings = wanted.warnings.get(profile.name, [])
    return [*((WARNING, one) for one in warnings), *((DISPATCH, one) for one in said)]


def _user_limits(connection: Connection, wanted: _Wanted) -> UserLimits:
    user_id = wanted.user.user_id
    wallet = wallets.get_wallet(connection, wallet_id_of(user_id, wanted.request.team_id))
    return limits_of(wallet, queue.num_queued(connection, user_id))


def _required(connection: Connection, run_id: str) -> StoredRun:
    run = runs.get_run(connection, run_id)
    assert run is not None, "a key is claimed in the transaction that stores its run"
    return run
