"""Counting: what a config comes to in GPUs, nodes, pods and engines."""

import tomllib
from pathlib import Path

import pytest

from runtime.admission import admission_problems
from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.config import load_config
from runtime.launch.components import build_components
from runtime.plan import RunPlan, build_plan, plan_from_json, plan_to_json
from runtime.plan_report import component_rows, plan_report, price_text

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = """
max_steps = 10
[model]
name = "Qwen/Qwen3-0.6B"
[deployment]
{deployment}
[trainer]
[orchestrator]
[[orchestrator.train.source]]
name = "reverse-text"
env.taskset.id = "reverse-text"
[inference]
{inference}
"""


def plan_of(deployment: str, inference: str = "", profile: ClusterProfile | None = None) -> RunPlan:
    text = SMALL.format(deployment=deployment, inference=inference)
    return build_plan(load_config(text), run_id="run-1", profile=profile)


def local_profile(slots: int = 8) -> ClusterProfile:
    return ClusterProfile(
        name="local",
        gpus=(GpuOffer(name="CPU", num_nodes=1, gpus_per_node=slots, price_usd_per_hour=0.0),),
        connection=LocalConnection(state_path="/state", cache_path="/cache"),
        runs_path="/runs",
    )


def test_multi_node_example_is_two_trainer_and_two_inference_nodes_of_eight_gpus() -> None:
    loaded = load_config((EXAMPLES / "multi-node.toml").read_text())

    plan = build_plan(loaded, run_id="run-1")

    trainer, inference = plan.role("trainer"), plan.role("inference")
    assert trainer is not None
    assert inference is not None
    assert (trainer.num_pods, trainer.gpus_per_pod) == (2, 8)
    assert (inference.num_pods, inference.gpus_per_pod) == (2, 8)
    assert inference.tensor_parallel == 8
    assert plan.num_gpus == 32
    assert plan.pool.num_nodes == 4
    assert plan.pool.exclusive_nodes


def test_single_node_example_is_one_trainer_and_one_inference_gpu_on_one_node() -> None:
    loaded = load_config((EXAMPLES / "reverse-text.toml").read_text())

    plan = build_plan(loaded, run_id="run-1")

    assert plan.num_gpus == 2
    assert plan.pool.num_nodes == 1
    assert [role.role for role in plan.roles] == ["trainer", "inference", "orchestrator", "env"]


@pytest.mark.parametrize(
    ("deployment", "inference", "num_engines", "num_gpus"),
    [
        ("num_infer_gpus = 4", "", 4, 5),
        ("num_infer_gpus = 4", "vllm.tensor_parallel_size = 2", 2, 5),
        ("num_train_gpus = 4\nnum_infer_gpus = 4", "vllm.tensor_parallel_size = 4", 1, 8),
        (
            'type = "multi_node"\nnum_train_nodes = 1\nnum_infer_nodes = 1\nnum_infer_replicas = 3',
            "vllm.tensor_parallel_size = 4",
            6,
            32,
        ),
    ],
)
def test_engines_are_gpus_over_tensor_parallel(
    deployment: str, inference: str, num_engines: int, num_gpus: int
) -> None:
    plan = plan_of(deployment, inference)

    role = plan.role("inference")
    assert role is not None
    assert role.num_engines == num_engines
    assert plan.num_gpus == num_gpus


def test_a_router_stands_before_several_engines_of_pods_only() -> None:
    assert plan_of("num_infer_gpus = 2").role("router") is not None
    assert plan_of("num_infer_gpus = 1").role("router") is None
    assert plan_of("num_infer_gpus = 2", profile=local_profile()).role("router") is None


def test_a_plan_is_read_back_from_json_as_it_was() -> None:
    plan = plan_of("num_infer_gpus = 2", profile=local_profile())

    assert plan_from_json(plan_to_json(plan)) == plan


def test_local_components_are_one_process_an_engine_with_its_own_port_and_log() -> None:
    plan = plan_of("num_infer_gpus = 2", profile=local_profile())

    engines = [one for one in build_components(plan) if one.role.role == "inference"]

    assert [one.name for one in engines] == ["inference-0", "inference-1"]
    assert len({one.log for one in engines}) == 2
    ports = [port for row in component_rows(plan, run_path="/r") for port in row.ports]
    assert len(ports) == len(set(ports))


def test_external_env_servers_are_neither_planned_nor_started() -> None:
    text = SMALL.format(deployment="", inference="").replace(
        'env.taskset.id = "reverse-text"',
        'env.taskset.id = "reverse-text"\nserve.address = "tcp://env.example:5000"',
    )

    plan = build_plan(load_config(text), run_id="run-1")

    assert plan.role("env") is None


def test_a_run_without_max_steps_has_no_end_and_its_price_says_so() -> None:
    text = SMALL.format(deployment="", inference="").replace("max_steps = 10", "")

    plan = build_plan(load_config(f'gpu_type = "H200_141GB"\n{text}'), run_id="run-1")

    assert price_text(plan) == "no end: $6.98/hour until stopped"


def test_the_cheapest_gpu_type_that_is_big_enough_is_picked() -> None:
    offers = (
        GpuOffer(name="A100_80GB", num_nodes=1, gpus_per_node=1, price_usd_per_hour=1.0),
        GpuOffer(name="H100_80GB", num_nodes=1, gpus_per_node=8, price_usd_per_hour=3.0),
        GpuOffer(name="H200_141GB", num_nodes=1, gpus_per_node=8, price_usd_per_hour=2.0),
    )
    profile = local_profile().model_copy(update={"gpus": offers})

    plan = plan_of("num_infer_gpus = 2", profile=profile)

    assert plan.pool.gpu_type == "H200_141GB"
    assert plan.price_usd_per_hour == 6.0


def test_a_run_over_the_cap_is_refused_with_its_sum() -> None:
    plan = plan_of('type = "multi_node"\nnum_train_nodes = 8\nnum_infer_nodes = 1')

    (problem,) = admission_problems(plan)

    assert problem.code == "gpu_cap"
    assert "64 trainer + 8 inference = 72 GPUs" in problem.message
    assert not admission_problems(plan, max_gpus=512)


def test_the_report_names_every_component_with_its_command() -> None:
    loaded = load_config((EXAMPLES / "multi-node.toml").read_text())
    plan = build_plan(loaded, run_id="run-1")

    report = plan_report(plan, run_path="runs/run-1", notices=[], not_checked=["model"])

    assert report["numGpus"] == 32
    names = [component["name"] for component in report["components"]]
    assert names == [
        "inference-0",
        "inference-1",
        "router",
        "env-train-math",
        "orchestrator",
        "trainer-0",
        "trainer-1",
    ]
    assert tomllib.loads(loaded.text)["deployment"]["num_infer_nodes"] == 2
