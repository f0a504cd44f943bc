"""Every deployment shape as a plan: GPUs, ports, admin URLs in rank order, world sizes."""

from typing import Any

import pytest

from runtime.launch.components import build_components
from runtime.plan import RunPlan, plan_from_json, plan_to_json
from runtime.plan_report import component_rows, plan_report, plan_wiring
from tests.runtime.deployments import SHAPES, TEXT, plan_of, shape
from tests.runtime.judging import judge


def report_of(plan: RunPlan) -> dict[str, Any]:
    return plan_report(plan, run_path="/r", notices=[], not_checked=[])


@pytest.mark.parametrize("name", SHAPES)
def test_gpus_engines_and_pods_are_those_of_the_shape(name: str) -> None:
    expected = SHAPES[name][2]

    plan = shape(name)

    assert plan.num_gpus == expected["trainer"] + expected["inference"] == plan.pool.num_gpus
    assert plan.trainer_world_size == plan.num_train_workers == expected["trainer"]
    assert plan.inference_world_size == expected["inference"]
    assert plan.num_engines == expected["engines"]
    assert plan.num_pods == expected["pods"] == len(build_components(plan))
    assert plan_from_json(plan_to_json(plan)) == plan


@pytest.mark.parametrize("name", SHAPES)
def test_every_component_has_its_own_name_log_and_ports(name: str) -> None:
    plan = shape(name)

    rows = component_rows(plan, run_path="/r")

    assert len({row.name for row in rows}) == len({row.log for row in rows}) == len(rows)
    assert all(len(set(row.ports)) == len(row.ports) for row in rows)
    assert sum(row.num_gpus for row in rows) == plan.num_gpus


@pytest.mark.parametrize("name", SHAPES)
def test_there_is_one_admin_url_an_engine_and_one_process_each(name: str) -> None:
    plan = shape(name)

    urls = plan_wiring(plan).admin_urls
    processes = [
        command
        for row in component_rows(plan, run_path="/r")
        if row.role == "inference"
        for command in row.commands
    ]

    assert len(urls) == len(set(urls)) == plan.num_engines == len(processes)


def test_admin_urls_go_pod_by_pod_and_rank_by_rank() -> None:
    wiring = plan_wiring(shape("replicas"))

    assert wiring.admin_urls == tuple(
        f"http://run-1-1-inference-{pod}-0.run-1-1:{port}/v1"
        for pod in range(3)
        for port in (8100, 8101)
    )
    assert wiring.base_url == "http://run-1-1-router-0-0.run-1-1:8000/v1"


def test_prefill_comes_before_decode_in_each_replica() -> None:
    wiring = plan_wiring(shape("disaggregated"))

    a_replica = ["prefill"] * 2 + ["decode"] * 4
    assert list(wiring.admin_roles) == a_replica * 2
    hosts = [
        url.removeprefix("http://run-1-1-").replace(".run-1-1", "") for url in wiring.admin_urls
    ]
    assert hosts == [
        *("prefill-0-0:8100/v1", "prefill-0-0:8101/v1"),
        *("decode-0-0:8200/v1", "decode-0-0:8201/v1", "decode-0-1:8200/v1", "decode-0-1:8201/v1"),
        *("prefill-1-0:8100/v1", "prefill-1-0:8101/v1"),
        *("decode-1-0:8200/v1", "decode-1-0:8201/v1", "decode-1-1:8200/v1", "decode-1-1:8201/v1"),
    ]


def test_the_roles_are_those_that_the_orchestrators_metrics_expect() -> None:
    deployment, more, _ = SHAPES["disaggregated"]
    verdict = judge(TEXT.format(deployment=deployment, more=more))
    assert verdict.loaded is not None
    assert verdict.plan is not None

    roles = verdict.loaded.config.orchestrator.inference_metrics_roles

    assert list(plan_wiring(verdict.plan).admin_roles) == roles


def test_prefill_and_decode_have_their_files_backends_and_side_channels() -> None:
    rows = {row.name: row for row in component_rows(shape("disaggregated"), run_path="/r")}

    prefill, decode = rows["inference-prefill-1"], rows["inference-decode-1"]
    assert prefill.config == "inference-prefill.json"
    assert "deepep_high_throughput" in prefill.argv
    assert decode.config == "inference-decode.json"
    assert "deepep_low_latency" in decode.argv
    assert decode.commands[1].env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5601"
    router = rows["router"].argv
    assert "--vllm-pd-disaggregation" in router
    assert (router.count("--prefill"), router.count("--decode")) == (4, 8)


def test_expert_groups_are_a_replica_with_one_head() -> None:
    plan = shape("expert parallel")

    commands = [
        (row.name, command)
        for row in component_rows(plan, run_path="/r")
        if row.role == "inference"
        for command in row.commands
    ]

    ranks = [
        (command.overrides["data_parallel_rank"], command.overrides["data_parallel_address"])
        for _, command in commands
    ]
    heads = [f"run-1-1-inference-{replica}-0.run-1-1" for replica in (0, 1) for _ in range(4)]
    assert ranks == list(zip([0, 1, 2, 3] * 2, heads, strict=True))
    for _, command in commands:
        argv = command.argv
        assert argv[argv.index("--vllm.data-parallel-size") + 1] == "4"
        assert argv[argv.index("--vllm.data-parallel-rpc-port") + 1] == "13345"
        assert argv[-1] == f"/r/configs/{command.overrides_path}"


def test_decode_nodes_of_a_disaggregated_replica_share_their_experts() -> None:
    plan = shape("disaggregated")

    groups = {role.part: role.group_size for role in plan.roles if role.role == "inference"}

    assert groups == {"prefill": 2, "decode": 4}


def test_dense_engines_are_independent_and_take_their_slice_of_the_gpus() -> None:
    rows = component_rows(shape("several engines"), run_path="/r")

    commands = next(row.commands for row in rows if row.role == "inference")

    assert [command.env["CUDA_VISIBLE_DEVICES"] for command in commands] == ["0,1", "2,3", "4,5"]
    sizes = {
        command.argv[command.argv.index("--vllm.data-parallel-size") + 1] for command in commands
    }
    assert sizes == {"1"}


def test_a_single_engine_is_asked_without_a_router() -> None:
    plan = shape("single_node")

    assert plan.role("router") is None
    assert plan_wiring(plan).base_url == "http://run-1-1-inference-0-0.run-1-1:8100/v1"


def test_nccl_and_zmq_are_bound_by_one_side_and_called_by_name_from_the_others() -> None:
    wiring = plan_wiring(shape("multi_node"))

    assert wiring.weights is not None
    assert wiring.rollouts is not None
    assert (wiring.weights.bind, wiring.weights.connect) == (
        "0.0.0.0",
        "run-1-1-trainer-0-0.run-1-1",
    )
    assert (wiring.rollouts.bind, wiring.rollouts.connect) == (
        "0.0.0.0",
        "run-1-1-orchestrator-0-0.run-1-1",
    )


def test_files_replace_both_sockets() -> None:
    more = (
        '[inference]\n[weight_broadcast]\ntype = "filesystem"\n'
        '[rollout_transport]\ntype = "filesystem"'
    )

    plan = plan_of("", more)

    wiring = plan_wiring(plan)
    assert wiring.weights is wiring.rollouts is None
    ports = {component.name: len(component.ports) for component in build_components(plan)}
    assert ports["orchestrator"] == 0
    assert ports["trainer-0"] == 1, "the rendezvous"


def test_lora_travels_by_files() -> None:
    plan = shape("lora")

    assert plan.lora
    assert plan.weight_broadcast == "filesystem"


def test_ports_that_the_file_moves_are_the_pods_ports() -> None:
    more = """
[inference.server]
port = 9000
[weight_broadcast]
type = "nccl"
port = 29511
[rollout_transport]
type = "zmq"
port = 6000
[trainer.metrics_server]
port = 8008
"""

    plan = plan_of("num_infer_gpus = 2", more)

    ports = {row.name: row.ports for row in component_rows(plan, run_path="/r")}
    assert ports["router"] == (9000, 30000)
    assert ports["inference-0"] == (9100, 9101)
    assert ports["orchestrator"] == (6000, 6001)
    assert ports["trainer-0"] == (29500, 29511, 8008)


def test_sources_keep_their_number_beside_an_external_env_server() -> None:
    more = """
[[orchestrator.train.source]]
name = "remote"
env.taskset.id = "plum"
serve.address = "tcp://envs.example:5555"
[[orchestrator.train.source]]
name = "third"
env.taskset.id = "plum"
[[orchestrator.eval.source]]
name = "reverse-text"
env.taskset.id = "reverse-text"
[inference]
"""

    plan = plan_of("", more)

    assert plan_wiring(plan).env_servers == {
        ("train", "reverse-text"): "tcp://run-1-1-env-train-reverse-text-0-0.run-1-1:5000",
        ("train", "third"): "tcp://run-1-1-env-train-third-0-0.run-1-1:5002",
        ("eval", "reverse-text"): "tcp://run-1-1-env-eval-reverse-text-0-0.run-1-1:5003",
    }
    assert [(one.path, one.url) for one in plan.endpoints] == [
        ("orchestrator.train.source[1].serve.address", "tcp://envs.example:5555")
    ]
    assert plan.environments == ("reverse-text", "plum")


def test_teachers_and_judges_are_servers_elsewhere_without_gpus_of_ours() -> None:
    more = """
[orchestrator.algo]
type = "opd"
[orchestrator.algo.teacher]
name = "big/teacher"
base_url = "http://teacher.example:8001/v1"
[[orchestrator.train.source.env.taskset.task.judges]]
id = "rubric"
model = "big/judge"
base_url = "http://judge.example/v1"
[inference]
"""
    text = TEXT.format(deployment="", more="").replace("group_size = 8\n", "")

    verdict = judge(text + more)

    assert verdict.plan is not None, verdict.said
    assert verdict.plan.num_gpus == 2
    assert [(one.url, one.model) for one in verdict.plan.endpoints] == [
        ("http://teacher.example:8001/v1", "big/teacher"),
        ("http://judge.example/v1", ""),
    ]


def test_the_report_has_world_sizes_urls_and_channels() -> None:
    report = report_of(shape("expert parallel"))

    assert report["worldSizes"] == {"trainer": 8, "inference": 32, "trainWorkers": 8}
    assert len(report["adminUrls"]) == 8
    assert report["weights"]["port"] == 29501
    inference = next(role for role in report["roles"] if role["role"] == "inference")
    assert (inference["replicas"], inference["expertGroup"]) == (2, 4)
    assert report["components"][0]["commands"][1]["content"]["data_parallel_rank"] == 1


def test_counts_of_plan_and_config_agree() -> None:
    for deployment, more, _ in SHAPES.values():
        verdict = judge(TEXT.format(deployment=deployment, more=more))
        assert verdict.loaded is not None
        assert verdict.plan is not None
        config = verdict.loaded.config
        served = config.deployment.total_infer_gpus if config.inference is not None else 0
        assert verdict.plan.inference_world_size == served
        assert verdict.plan.trainer_world_size == config.deployment.total_train_gpus
