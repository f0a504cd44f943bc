"""Situation: what admission judges a plan by, as values: a cluster's snapshot, a user's limits.

Looked up by `runtime.observe` and by a control plane; nothing is looked up here.
"""

from dataclasses import dataclass

from runtime import limits


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What existed when admission was asked: free GPUs by type, models, tasksets.

    `model_path` is where the plan's model lies for the target, None where it was not found;
    `num_free_gpus` does not count the run's own slots as taken. `requested_environments` are the
    requirement specs that the run installs at start. `first_steps` are the checkpoints of the run
    that this one starts with, None where nobody knows them or it needs none. `secret_names` are
    the names of the run's secrets, None where nobody knows them. `models_unread` says why a cluster
    could not tell whether it has the model, empty where it told or was not asked.
    """

    model_path: str | None
    tasksets: frozenset[str]
    num_free_gpus: dict[str, int]
    requested_environments: tuple[str, ...] = ()
    secret_names: frozenset[str] | None = None
    first_steps: tuple[int, ...] | None = None
    models_unread: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class UserLimits:
    """What a control plane knows of the user who dispatches; by hand there is none.

    `num_queued` counts the user's queued runs without this one; `balance_usd` is None where nothing
    is billed.
    """

    num_queued: int = 0
    max_queued: int = limits.MAX_QUEUED_RUNS_PER_USER
    max_gpus_per_run: int = limits.MAX_GPUS_PER_RUN
    balance_usd: float | None = None
    has_on_demand: bool = True
