"""Rules about GPUs, nodes and engines: what fits on a node, what divides what."""

from collections.abc import Iterator

from runtime.config.deployment import MultiNodeDeployment, SingleNodeDeployment
from runtime.config.inference import DisaggregatedInference, MultiNodeInference
from runtime.config.rl import RLConfig
from runtime.config.rules.rule import broken, rule
from runtime.errors import Problem

_TP = "inference.vllm.tensor_parallel_size"


@rule("deployment")
def gpus_fit_on_the_node(config: RLConfig) -> Iterator[Problem]:
    """A single node holds trainer and inference."""
    deployment = config.deployment
    if not isinstance(deployment, SingleNodeDeployment):
        return
    wanted = deployment.num_train_gpus + deployment.num_infer_gpus
    if wanted > deployment.gpus_per_node:
        yield broken(
            "deployment",
            f"num_train_gpus {deployment.num_train_gpus} + num_infer_gpus "
            f"{deployment.num_infer_gpus} = {wanted} is over gpus_per_node "
            f"{deployment.gpus_per_node}",
            fix='lower one, or use type = "multi_node"',
        )


@rule("deployment", "inference")
def engines_divide_their_gpus(config: RLConfig) -> Iterator[Problem]:
    """Tensor parallelism divides the GPUs that an engine can have."""
    deployment, inference = config.deployment, config.inference
    if inference is None:
        return
    size = inference.vllm.tensor_parallel_size
    if isinstance(deployment, SingleNodeDeployment):
        if deployment.num_infer_gpus % size:
            yield broken(
                _TP,
                f"tensor_parallel_size {size} does not divide deployment.num_infer_gpus "
                f"{deployment.num_infer_gpus}",
                fix=f"set num_infer_gpus to a multiple of {size}, or lower tensor_parallel_size",
            )
    elif deployment.gpus_per_node % size:
        yield broken(
            _TP,
            f"tensor_parallel_size {size} does not divide deployment.gpus_per_node "
            f"{deployment.gpus_per_node}: an engine cannot reach over a node",
            fix="use a divisor of gpus_per_node",
        )


@rule("deployment", "inference", "trainer.data", "orchestrator.model.client")
def somebody_serves_the_policy(config: RLConfig) -> Iterator[Problem]:
    """Without inference GPUs the data is fake or the policy is served elsewhere."""
    deployment = config.deployment
    if not isinstance(deployment, SingleNodeDeployment) or deployment.num_infer_gpus > 0:
        return
    if config.inference is not None:
        yield broken(
            "deployment.num_infer_gpus",
            "[inference] needs at least one GPU, num_infer_gpus is 0",
            fix="set num_infer_gpus = 1, or remove [inference]",
        )
    elif (
        config.trainer.data.fake is None
        and "base_url" not in config.orchestrator.model.client.model_fields_set
    ):
        yield broken(
            "deployment.num_infer_gpus",
            "num_infer_gpus 0: nobody serves the policy",
            fix="set num_infer_gpus and [inference], name a server in "
            "orchestrator.model.client.base_url, or use [trainer.data.fake]",
        )


@rule("deployment", "inference", "trainer.data")
def inference_nodes_match_inference(config: RLConfig) -> Iterator[Problem]:
    """Nodes for inference and the table that says what runs on them come together."""
    deployment, inference = config.deployment, config.inference
    if not isinstance(deployment, MultiNodeDeployment):
        return
    num_nodes = deployment.num_infer_nodes
    if num_nodes and inference is None:
        yield broken(
            "deployment.num_infer_nodes",
            f"num_infer_nodes {num_nodes}, but there is no [inference] table",
            fix="write [inference], an empty table is enough, or set num_infer_nodes = 0",
        )
    if num_nodes == 0 and inference is not None:
        yield broken(
            "deployment.num_infer_nodes",
            "[inference] needs nodes, num_infer_nodes is 0",
            fix="set num_infer_nodes, or remove [inference]",
        )
    if not num_nodes and inference is None and config.trainer.data.fake is None:
        yield broken(
            "deployment.num_infer_nodes",
            "without inference nodes nobody serves the policy",
            fix="set num_infer_nodes and write [inference], or use [trainer.data.fake]",
        )


@rule("deployment", "inference.deployment")
def node_counts_agree(config: RLConfig) -> Iterator[Problem]:
    """`deployment.num_infer_nodes` is what `[inference.deployment]` adds up to."""
    deployment, inference = config.deployment, config.inference
    if inference is None:
        return
    below = inference.deployment
    if below.type != "single_node" and not isinstance(deployment, MultiNodeDeployment):
        yield broken(
            "inference.deployment.type",
            f'"{below.type}" needs several nodes, [deployment] is single_node',
            fix='write [deployment] type = "multi_node" with num_train_nodes',
        )
        return
    written = deployment.num_infer_nodes if isinstance(deployment, MultiNodeDeployment) else None
    if written is None:
        return
    if isinstance(below, MultiNodeInference) and below.num_nodes != written:
        yield broken(
            "deployment.num_infer_nodes",
            f"num_infer_nodes {written} is not inference.deployment.num_nodes {below.num_nodes}",
            fix="leave num_infer_nodes out",
        )
    if isinstance(below, DisaggregatedInference) and below.num_nodes != written:
        yield broken(
            "deployment.num_infer_nodes",
            f"num_infer_nodes {written} is not prefill_nodes_per_replica x num_prefill_replicas + "
            f"decode_nodes_per_replica x num_decode_replicas = {below.num_nodes}",
            fix="leave num_infer_nodes out",
        )


@rule("deployment")
def fsdp_groups_divide_the_nodes(config: RLConfig) -> Iterator[Problem]:
    """Groups of trainer nodes are equal."""
    deployment = config.deployment
    if not isinstance(deployment, MultiNodeDeployment) or not deployment.nodes_per_fsdp_group:
        return
    if deployment.num_train_nodes % deployment.nodes_per_fsdp_group:
        yield broken(
            "deployment.nodes_per_fsdp_group",
            f"nodes_per_fsdp_group {deployment.nodes_per_fsdp_group} does not divide "
            f"num_train_nodes {deployment.num_train_nodes}",
        )


@rule("deployment", "trainer.model.cp")
def context_parallel_divides_the_trainer(config: RLConfig) -> Iterator[Problem]:
    """Context parallelism divides the trainer's GPUs; upstream drops the remainder."""
    gpus, cp = config.deployment.total_train_gpus, config.trainer.model.cp
    if gpus % cp:
        yield broken(
            "trainer.model.cp",
            f"cp {cp} does not divide the trainer's {gpus} GPUs",
            fix="use a divisor, or change the trainer's GPUs in [deployment]",
        )


@rule("deployment", "inference")
def expert_parallel_fills_the_nodes(config: RLConfig) -> Iterator[Problem]:
    """With expert parallelism over nodes the number of copies is written, and fills the nodes."""
    deployment, inference = config.deployment, config.inference
    if not isinstance(deployment, MultiNodeDeployment) or inference is None:
        return
    vllm, below = inference.vllm, inference.deployment
    if not vllm.enable_expert_parallel or isinstance(below, DisaggregatedInference):
        return
    nodes = deployment.num_infer_nodes
    if nodes is None:
        nodes = below.num_nodes if isinstance(below, MultiNodeInference) else 1
    wanted = nodes * deployment.gpus_per_node
    ranks = vllm.data_parallel_size * vllm.tensor_parallel_size
    if ranks != wanted:
        yield broken(
            "inference.vllm.data_parallel_size",
            f"with enable_expert_parallel, data_parallel_size {vllm.data_parallel_size} x "
            f"tensor_parallel_size {vllm.tensor_parallel_size} = {ranks} must be the {wanted} GPUs "
            "of a replica",
            fix=f"set data_parallel_size = {wanted // vllm.tensor_parallel_size}",
        )
    local = deployment.gpus_per_node // vllm.tensor_parallel_size
    if vllm.data_parallel_size_local not in (None, local):
        yield broken(
            "inference.vllm.data_parallel_size_local",
            f"data_parallel_size_local {vllm.data_parallel_size_local} must be gpus_per_node / "
            f"tensor_parallel_size = {local}",
            fix="leave it out",
        )


RULES = (
    gpus_fit_on_the_node,
    engines_divide_their_gpus,
    somebody_serves_the_policy,
    inference_nodes_match_inference,
    node_counts_agree,
    fsdp_groups_divide_the_nodes,
    context_parallel_divides_the_trainer,
    expert_parallel_fills_the_nodes,
)
