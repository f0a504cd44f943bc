"""A small config put before admission, on a cluster or none, for a user or by hand."""

from dataclasses import replace

from runtime.admission import Snapshot, UserLimits, admission_problems
from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.config import load_config
from runtime.plan import RunPlan, build_plan
from tests.runtime.judging import profile_of

TEXT = """
max_steps = 10
{extra}
[model]
name = "{model}"
[deployment]
{deployment}
[trainer]
[orchestrator]
renderer.name = "default"
[[orchestrator.train.source]]
name = "one"
env.taskset.id = "{taskset}"
{more}
"""
NODES = 'type = "multi_node"\nnum_train_nodes = {train}\nnum_infer_nodes = 1'
FULL = Snapshot(model_path=None, tasksets=frozenset({"reverse-text"}), num_free_gpus={"CPU": 1})
READY = Snapshot(
    model_path="/cache/m",
    tasksets=frozenset({"reverse-text"}),
    num_free_gpus={"CPU": 4, "H100_80GB": 64},
    secret_names=frozenset(),
)


def local(num_nodes: int = 1) -> ClusterProfile:
    """Return the profile of a local cluster of CPU slots."""
    return ClusterProfile(
        name="local",
        gpus=(GpuOffer(name="CPU", num_nodes=num_nodes, gpus_per_node=4, price_usd_per_hour=0.0),),
        connection=LocalConnection(state_path="/state", cache_path="/cache"),
        runs_path="/runs",
    )


def made(profile: ClusterProfile | None = None, **parts: str) -> RunPlan:
    """Return the plan of a small config with these parts."""
    fields = {
        "extra": "",
        "model": "some/model",
        "deployment": "",
        "taskset": "reverse-text",
        "more": "[inference]",
    }
    text = TEXT.format(**(fields | parts))
    return build_plan(load_config(text), run_id="run-1", profile=profile)


def codes(
    plan: RunPlan,
    profile: ClusterProfile | None = None,
    snapshot: Snapshot | None = None,
    user: UserLimits | None = None,
) -> list[str]:
    """Return the codes that admission gives a plan."""
    found = admission_problems(plan, profile=profile, snapshot=snapshot, user=user)
    assert all(problem.message for problem in found)
    return [problem.code for problem in found]


def on(profile: ClusterProfile, snapshot: Snapshot = READY, **parts: str) -> list[str]:
    """Return the codes that a config of these parts gets on a cluster."""
    return codes(made(profile, **parts), profile, snapshot)


def of(user: UserLimits) -> list[str]:
    """Return the codes that a small run of a user gets."""
    profile = profile_of()
    return codes(made(profile), profile, READY, user)


def starting_with(steps: tuple[int, ...], resume_from: str = "run-before") -> list[str]:
    """Return the codes of a run that starts with another's checkpoint, which has these steps."""
    plan = replace(made(local()), resume_from=resume_from)
    return codes(plan, local(), replace(READY, first_steps=steps))


MISSING = Snapshot(
    model_path=None, tasksets=READY.tasksets, num_free_gpus={}, secret_names=frozenset()
)
TOKEN = Snapshot(
    model_path=None,
    tasksets=READY.tasksets,
    num_free_gpus={},
    secret_names=frozenset({"HF_TOKEN"}),
)
