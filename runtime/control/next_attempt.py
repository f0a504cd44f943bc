"""NextAttempts: the plan of a paused run's next attempt, judged as its dispatch was.

A resume may name another image tag or GPU type, and in between the cluster, the model or the wallet
may have gone. Looked up and judged by `runtime.control.intents` before anything is stored: what the
engine refuses later would end the run for good.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue
from sqlalchemy import Connection

from runtime.admission import admission_problems
from runtime.cluster import ClusterProfile
from runtime.config import DispatchFlags, load_stored_config
from runtime.control.dispatch_rules import absent_cluster, check_user, limits_of
from runtime.control.model_lists import ListedClusters
from runtime.control.places import on_volume
from runtime.control.requests import ResumeRun
from runtime.control.stack_facts import StackFacts
from runtime.control.store import queue, wallets
from runtime.control.store.store import Store
from runtime.control.values import StoredRun, wallet_id_of
from runtime.errors import RefusedError
from runtime.gpus import CPU_SLOT
from runtime.observe.snapshot import known_snapshot
from runtime.plan import RunPlan, build_plan
from runtime.situation import UserLimits

JudgeNext = Callable[[StoredRun, ResumeRun, StackFacts], RunPlan]
"""Returns the plan of a run's next attempt; raises ConfigError and RefusedError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NextAttempts:
    """Judges attempts on the clusters of a server."""

    store: Store
    clusters: ListedClusters

    def plan(self, run: StoredRun, request: ResumeRun, stack: StackFacts) -> RunPlan:
        """Return the plan of the next attempt, on the cluster that has the run's checkpoint.

        Raises ConfigError, and RefusedError with every reason.
        """
        profile = self.clusters.profiles().get(run.cluster or "")
        if profile is None:
            raise absent_cluster(str(run.cluster))
        # the volumes of users are the store's, not those that a person has listed
        profile = profile.model_copy(update={"volumes": None})
        settings = {**stack.settings, **run.settings}
        secret_names = frozenset({*run.secret_names, *request.secrets})
        loaded = load_stored_config(
            run.config_text,
            flags=_flags(run, request, settings),
            secret_names=secret_names,
            allow_unknown_fields=profile.allow_unknown_fields,
        )
        plan = build_plan(loaded, run_id=run.run_id, attempt=run.attempt + 1, profile=profile)
        volume = _text(settings.get("volume"))
        if volume is not None:
            profile = on_volume(profile, plan, self.clusters, volume)
        snapshot = known_snapshot(
            plan,
            profile,
            volume_path=self._volume_path(profile, volume),
            requested_environments=_texts(settings.get("environments")),
            secret_names=None if run.is_adopted else secret_names,
        )
        snapshot = self.clusters.models.completed(snapshot, plan, profile)
        problems = admission_problems(
            plan, profile=profile, snapshot=snapshot, user=self._limits(run)
        )
        if problems:
            raise RefusedError(problems)
        return replace(plan, resume_from=_text(settings.get("resumeFrom")))

    def _limits(self, run: StoredRun) -> UserLimits | None:
        """Return the limits of whom the run is for; by hand neither wallet nor queue binds."""
        if run.is_adopted:
            return None
        with self.store.read() as connection:
            return _limits_of(connection, run)

    def _volume_path(self, profile: ClusterProfile, volume: str | None) -> str | None:
        if volume is None:
            return None
        return str(self.clusters.volume_path(profile.name, volume) or volume)


def check_limits(connection: Connection, run: StoredRun, plan: RunPlan) -> None:
    """Raise RefusedError for what a user may not by now, in the transaction that queues the run."""
    if not run.is_adopted:
        limits = _limits_of(connection, run)
        # its place in the queue is taken already, and is not one of the others'
        check_user(plan, replace(limits, num_queued=limits.num_queued - 1))


def _limits_of(connection: Connection, run: StoredRun) -> UserLimits:
    wallet = wallets.get_wallet(connection, wallet_id_of(run.user_id, run.team_id))
    return limits_of(wallet, queue.num_queued(connection, run.user_id))


def _flags(run: StoredRun, request: ResumeRun, settings: Mapping[str, JsonValue]) -> DispatchFlags:
    held = run.gpu_type if run.gpu_type != CPU_SLOT else None
    return DispatchFlags(
        image_tag=request.image_tag or _text(settings.get("imageTag")),
        gpu_type=request.gpu_type or held,
        volume=_text(settings.get("volume")),
        name=run.name,
    )


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
