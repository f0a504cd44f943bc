"""Derived values of the inference engines: parsers, copies, ports, and the client's addresses."""

from runtime.config.deployment import MultiNodeDeployment, SingleNodeDeployment
from runtime.config.engine_parsers import reasoning_parser, tool_call_parser
from runtime.config.inference import DisaggregatedInference, InferenceConfig
from runtime.config.orchestrator import Role
from runtime.config.rl import RLConfig
from runtime.config.vllm import MAX_LORA_RANKS


def derive_engines(config: RLConfig) -> None:
    """Fill in what `[inference]` and the orchestrator's view of it leave open."""
    inference = config.inference
    if inference is None:
        return
    vllm = inference.vllm
    if vllm.tool_call_parser == "auto":
        vllm.tool_call_parser = tool_call_parser(vllm.model)
    if vllm.reasoning_parser == "auto":
        vllm.reasoning_parser = reasoning_parser(vllm.model)
    if inference.router is not None and "backend_port" not in inference.model_fields_set:
        inference.backend_port = inference.server.port + 100
    if inference.kv_cache_offload is not None:
        vllm.enable_prefix_caching = True
    if config.trainer.enable_router_replay:
        vllm.enable_return_routed_experts = True
    if config.trainer.model.lora is not None:
        vllm.enable_lora = True
        vllm.max_lora_rank = config.trainer.model.lora.rank
    if vllm.max_lora_rank is not None:
        rank = vllm.max_lora_rank
        vllm.max_lora_rank = next(known for known in MAX_LORA_RANKS if known >= rank)
    _copies(config, inference)
    _addresses(config, inference)
    _roles(config, inference)


def _copies(config: RLConfig, inference: InferenceConfig) -> None:
    vllm, deployment = inference.vllm, config.deployment
    if isinstance(inference.deployment, DisaggregatedInference):
        inference.use_pd_kv_transfer = True
        if "enable_expert_parallel" not in vllm.model_fields_set:
            vllm.enable_expert_parallel = True
    if isinstance(deployment, SingleNodeDeployment):
        vllm.data_parallel_size = deployment.num_infer_gpus // vllm.tensor_parallel_size
    else:
        _copies_of_nodes(deployment, inference)
    servers = vllm.data_parallel_size_local or vllm.data_parallel_size
    if vllm.enable_lora:
        vllm.api_server_count = 1
    elif (vllm.model_extra or {}).get("headless"):
        vllm.api_server_count = 0
    elif "api_server_count" not in vllm.model_fields_set or isinstance(
        deployment, SingleNodeDeployment
    ):
        vllm.api_server_count = max(vllm.api_server_count, servers)


def _copies_of_nodes(deployment: MultiNodeDeployment, inference: InferenceConfig) -> None:
    vllm = inference.vllm
    a_node = deployment.gpus_per_node // vllm.tensor_parallel_size
    is_split = isinstance(inference.deployment, DisaggregatedInference)
    if vllm.data_parallel_size == 1 and not (vllm.enable_expert_parallel and not is_split):
        vllm.data_parallel_size = a_node
    spread = vllm.enable_expert_parallel or a_node > 1
    if vllm.data_parallel_size_local is None and spread:
        vllm.data_parallel_size_local = a_node


def _addresses(config: RLConfig, inference: InferenceConfig) -> None:
    client, deployment = config.orchestrator.model.client, config.deployment
    host = inference.server.host or "localhost"
    if host in ("0.0.0.0", "::"):  # noqa: S104 - an address to bind, not one to call
        host = "localhost"
    if "base_url" not in client.model_fields_set:
        client.base_url = f"http://{host}:{inference.server.port}/v1"
    wires_admin = deployment.type == "single_node" and inference.router is not None
    if wires_admin and "admin_base_url" not in client.model_fields_set:
        client.admin_base_url = [f"http://{host}:{inference.backend_port}/v1"]


def _roles(config: RLConfig, inference: InferenceConfig) -> None:
    """Name each engine's role in the order of the admin URLs: prefill, then decode."""
    below, deployment = inference.deployment, config.deployment
    is_split = isinstance(below, DisaggregatedInference)
    if not is_split or not isinstance(deployment, MultiNodeDeployment):
        return
    if "inference_metrics_roles" in config.orchestrator.model_fields_set:
        return
    a_node = deployment.gpus_per_node // inference.vllm.tensor_parallel_size
    replicas = deployment.total_infer_nodes // below.num_nodes
    num_prefill = below.num_prefill_nodes * a_node
    num_ranks = below.num_nodes * a_node
    a_replica: list[Role] = [
        "prefill" if rank < num_prefill else "decode" for rank in range(num_ranks)
    ]
    config.orchestrator.inference_metrics_roles = a_replica * replicas
