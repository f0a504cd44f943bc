"""A config judged as `paddock plan` does it: read, counted, admitted; with all that is said."""

from dataclasses import dataclass
from pathlib import Path

from runtime.admission import (
    UserLimits,
    admission_problems,
    admission_warnings,
)
from runtime.cluster import ClusterProfile
from runtime.config import LoadedConfig, load_config
from runtime.errors import ConfigError, Problem
from runtime.limits import MAX_GPUS_PER_RUN
from runtime.observe.snapshot import take_snapshot
from runtime.plan import RunPlan, build_plan

CLUSTERS = Path(__file__).resolve().parents[1] / "data" / "clusters"


def profile_of(name: str = "h100", **changes: object) -> ClusterProfile:
    """Return the ClusterProfile of a file of tests/data/clusters, with changed fields."""
    profile = ClusterProfile.model_validate_json((CLUSTERS / f"{name}.json").read_text())
    return profile.model_copy(update=changes)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a config was judged to be; `said` holds problems, notices and warnings."""

    loaded: LoadedConfig | None
    plan: RunPlan | None
    problems: tuple[Problem, ...]
    said: str

    @property
    def is_accepted(self) -> bool:
        """Tell whether nothing refuses it."""
        return not self.problems

    @property
    def codes(self) -> list[str]:
        """Return the codes of the problems."""
        return [str(problem.code) for problem in self.problems]


def judge(
    text: str | bytes,
    *,
    profile: ClusterProfile | None = None,
    secrets: frozenset[str] = frozenset(),
    user: UserLimits | None = None,
    max_gpus: int = MAX_GPUS_PER_RUN,
) -> Verdict:
    """Return the verdict on a config, with or without a cluster."""
    allows = profile is not None and profile.allow_unknown_fields
    try:
        loaded = load_config(text, secret_names=secrets, allow_unknown_fields=allows)
    except ConfigError as error:
        return Verdict(loaded=None, plan=None, problems=error.problems, said=str(error))
    plan = build_plan(loaded, run_id="run-1", profile=profile)
    snapshot = take_snapshot(plan, profile, secret_names=secrets) if profile is not None else None
    problems = admission_problems(
        plan, profile=profile, snapshot=snapshot, user=user, max_gpus=max_gpus
    )
    said = [*loaded.notices, *problems, *admission_warnings(plan, profile, snapshot)]
    return Verdict(
        loaded=loaded, plan=plan, problems=tuple(problems), said="\n".join(map(str, said))
    )
