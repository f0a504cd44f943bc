"""Every deployment shape as a config, with what its plan must come to."""

from runtime.plan import RunPlan
from tests.runtime.judging import judge

TEXT = """
max_steps = 10
[model]
name = "Qwen/Qwen3-0.6B"
[deployment]
{deployment}
[trainer]
[orchestrator]
group_size = 8
batch_size = 64
[[orchestrator.train.source]]
name = "reverse-text"
env.taskset.id = "reverse-text"
env.agent.harness.id = "null"
env.agent.runtime.type = "subprocess"
{more}
"""
NODES = 'type = "multi_node"\nnum_train_nodes = {train}\n'
DISAGGREGATED = """
[inference.deployment]
type = "disaggregated"
prefill_nodes_per_replica = 1
decode_nodes_per_replica = 2
[inference.vllm]
tensor_parallel_size = 4
"""
EXPERTS = """
[inference.vllm]
enable_expert_parallel = true
tensor_parallel_size = 4
data_parallel_size = {dp}
"""
SHAPES: dict[str, tuple[str, str, dict[str, int]]] = {
    "single_node": ("", "[inference]", {"trainer": 1, "inference": 1, "engines": 1, "pods": 4}),
    "several engines": (
        "num_train_gpus = 2\nnum_infer_gpus = 6",
        "[inference.vllm]\ntensor_parallel_size = 2",
        {"trainer": 2, "inference": 6, "engines": 3, "pods": 5},
    ),
    "experts on one node": (
        "num_train_gpus = 4\nnum_infer_gpus = 4",
        "[inference.vllm]\nenable_expert_parallel = true",
        {"trainer": 4, "inference": 4, "engines": 4, "pods": 5},
    ),
    "multi_node": (
        NODES.format(train=2) + "num_infer_nodes = 2",
        "[inference.vllm]\ntensor_parallel_size = 8",
        {"trainer": 16, "inference": 16, "engines": 2, "pods": 7},
    ),
    "replicas": (
        NODES.format(train=1) + "num_infer_nodes = 1\nnum_infer_replicas = 3",
        "[inference.vllm]\ntensor_parallel_size = 4",
        {"trainer": 8, "inference": 24, "engines": 6, "pods": 7},
    ),
    "smaller nodes": (
        NODES.format(train=2) + "num_infer_nodes = 1\ngpus_per_node = 4",
        "[inference]",
        {"trainer": 8, "inference": 4, "engines": 4, "pods": 6},
    ),
    "expert parallel": (
        NODES.format(train=1) + "num_infer_nodes = 2\nnum_infer_replicas = 2",
        EXPERTS.format(dp=4),
        {"trainer": 8, "inference": 32, "engines": 8, "pods": 8},
    ),
    "disaggregated": (
        NODES.format(train=1) + "num_infer_replicas = 2",
        DISAGGREGATED,
        {"trainer": 8, "inference": 48, "engines": 12, "pods": 10},
    ),
    "lora": (
        "",
        "[inference]\n[trainer.model.lora]\nrank = 8",
        {"trainer": 1, "inference": 1, "engines": 1, "pods": 4},
    ),
    "fake data": (
        NODES.format(train=2) + "num_infer_nodes = 0",
        "[trainer.data.fake]\nbatch_size = 8",
        {"trainer": 16, "inference": 0, "engines": 0, "pods": 4},
    ),
    "policy elsewhere": (
        "num_infer_gpus = 0",
        '[weight_broadcast]\ntype = "filesystem"\n[orchestrator.model.client]\n'
        'base_url = "http://policy.example:8000/v1"',
        {"trainer": 1, "inference": 0, "engines": 0, "pods": 3},
    ),
}


def plan_of(deployment: str, more: str) -> RunPlan:
    """Return the plan of a config that is accepted."""
    verdict = judge(TEXT.format(deployment=deployment, more=more), max_gpus=512)
    assert verdict.plan is not None, verdict.said
    assert verdict.is_accepted, verdict.said
    return verdict.plan


def shape(name: str) -> RunPlan:
    """Return the plan of a shape."""
    deployment, more, _ = SHAPES[name]
    return plan_of(deployment, more)
