"""Admission on a cluster: every reason at once, each with its code."""

from runtime.admission import Snapshot, admission_problems, capacity_problem
from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.config import load_config
from runtime.plan import build_plan

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
[inference]
"""
SNAPSHOT = Snapshot(model_path=None, tasksets=frozenset({"reverse-text"}), num_free_gpus={"CPU": 1})


def profile() -> ClusterProfile:
    return ClusterProfile(
        name="local",
        gpus=(GpuOffer(name="CPU", num_nodes=1, gpus_per_node=4, price_usd_per_hour=0.0),),
        connection=LocalConnection(state_path="/state", cache_path="/cache"),
        runs_path="/runs",
    )


def codes(
    *,
    extra: str = "",
    model: str = "some/model",
    deployment: str = "",
    taskset: str = "reverse-text",
    snapshot: Snapshot = SNAPSHOT,
) -> list[str]:
    text = TEXT.format(extra=extra, model=model, deployment=deployment, taskset=taskset)
    plan = build_plan(load_config(text), run_id="run-1", profile=profile())
    return [
        problem.code for problem in admission_problems(plan, profile=profile(), snapshot=snapshot)
    ]


def test_every_reason_is_told_at_once() -> None:
    found = codes(extra='gpu_type = "H200_141GB"', taskset="unknown-tasks")

    assert found == ["gpu_type", "model", "taskset"]


def test_a_deployment_bigger_than_the_machine_is_refused() -> None:
    assert "too_big" in codes(deployment="num_train_gpus = 4")


def test_multi_node_is_refused_on_the_local_target() -> None:
    deployment = 'type = "multi_node"\nnum_train_nodes = 1\nnum_infer_nodes = 1'

    assert "deployment" in codes(deployment=deployment)


def test_a_run_that_fits_has_no_problem() -> None:
    ready = Snapshot(
        model_path="/cache/m", tasksets=frozenset({"reverse-text"}), num_free_gpus={"CPU": 4}
    )

    assert codes(snapshot=ready) == []


def test_lack_of_free_slots_is_told_apart_from_refusals() -> None:
    text = TEXT.format(extra="", model="m", deployment="", taskset="reverse-text")
    plan = build_plan(load_config(text), run_id="run-1", profile=profile())

    problem = capacity_problem(plan, SNAPSHOT)

    assert problem is not None
    assert problem.code == "capacity"
    assert "needs 2 CPU slots, 1 are free" in problem.message
