"""Which cluster a dispatched run may go to, and every reason why it may not: pure decisions.

`runtime.control.dispatcher` looks up what is judged here: configs, profiles, snapshots, the user's
limits, the volume. The scheduler chooses among the clusters that are left open, once there is room.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.admission import admission_problems
from runtime.cluster import ClusterProfile
from runtime.control.values import MICROUSD_PER_USD, Wallet
from runtime.errors import Problem, RefusedError
from runtime.limits import MAX_GPUS_PER_RUN
from runtime.plan import RunPlan
from runtime.refusals.code import Code
from runtime.refusals.user import user_limits
from runtime.situation import Snapshot, UserLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A run's plan on one cluster, and why it may not run there."""

    profile: ClusterProfile
    plan: RunPlan
    problems: tuple[Problem, ...]

    @property
    def may_pass(self) -> bool:
        """Tell whether a reason is of this moment: the cluster does not answer."""
        return any(problem.code == Code.CAPACITY for problem in self.problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The cluster that a stack is made for; `is_pinned`: no other one may take the run."""

    judged: Judged
    is_pinned: bool


def judge(plan: RunPlan, profile: ClusterProfile, snapshot: Snapshot, user: UserLimits) -> Judged:
    """Return what admission says to a run on a cluster."""
    problems = admission_problems(plan, profile=profile, snapshot=snapshot, user=user)
    return Judged(profile=profile, plan=plan, problems=tuple(problems))


def choose(judged: Sequence[Judged]) -> Choice:
    """Return the cheapest cluster that admits the run; raises RefusedError where none does.

    The reasons are those of the cluster that has the fewest, of several one that cannot tell now:
    it may take the run later. The run is pinned where some cluster refuses it, since the scheduler
    looks at rooms only.
    """
    if not judged:
        raise RefusedError([_no_cluster()])
    admitted = [one for one in judged if not one.problems]
    if not admitted:
        best = min(judged, key=lambda one: (len(one.problems), not one.may_pass, one.profile.name))
        raise RefusedError(best.problems)
    cheapest = min(admitted, key=lambda one: (one.plan.price_usd_per_hour or 0.0, one.profile.name))
    return Choice(judged=cheapest, is_pinned=len(admitted) < len(judged))


def limits_of(wallet: Wallet, num_queued: int) -> UserLimits:
    """Return the limits of a user, or of the team that the user dispatches for."""
    return UserLimits(
        num_queued=num_queued,
        max_gpus_per_run=wallet.max_gpus_per_run or MAX_GPUS_PER_RUN,
        balance_usd=wallet.balance_microusd / MICROUSD_PER_USD,
        has_on_demand=wallet.is_on_demand_enabled,
    )


def check_user(plan: RunPlan, user: UserLimits) -> None:
    """Raise RefusedError for what a user may not by now, within the transaction that stores it."""
    problems = list(user_limits(plan, user))
    if problems:
        raise RefusedError(problems)


def absent_cluster(name: str) -> RefusedError:
    """Return the refusal of a run whose cluster, which has its checkpoint, is not up."""
    fix = "try again once its stack is up, or stop the run"
    return RefusedError(
        [Problem(message=f"cluster {name} is not up here", fix=fix, code=Code.CAPACITY)]
    )


def no_volume(name: str) -> RefusedError:
    """Return the refusal of a volume that the user has not."""
    message = f"there is no volume {name[:64]!r}"
    fix = "`prime volumes list` shows yours; a team's volume needs the team"
    return _refused("volume", message, fix, Code.VOLUME)


def unready_volume(name: str, status: str) -> RefusedError:
    """Return the refusal of a volume that cannot be mounted yet, or any more."""
    return _refused("volume", f"volume {name} is {status}", "wait until it is ready", Code.VOLUME)


def bad_origin(message: str, fix: str) -> RefusedError:
    """Return the refusal of a run that cannot start with the checkpoint that it names."""
    return _refused("resumeFrom", message, fix, Code.RESUME_FROM)


def _refused(field: str, message: str, fix: str, code: str) -> RefusedError:
    return RefusedError([Problem(loc=(field,), message=message, fix=fix, code=code)])


def _no_cluster() -> Problem:
    return Problem(
        message="no cluster is up here, or not the one of the volume or checkpoint",
        fix="ask the operators to bring its stack up",
        code=Code.CAPACITY,
    )
