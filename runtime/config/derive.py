"""What prime-rl works out from a valid config: copies, counts, addresses on one host.

Changes the config in place; run once, after the rules. World sizes are the real number of inference
GPUs, where upstream reads the file's data_parallel_size on a single node and then waits for ever.
"""

from typing import TypeVar

from runtime.config.block import Block
from runtime.config.client import OrchestratorLoRA
from runtime.config.deployment import MultiNodeDeployment
from runtime.config.derive_engines import derive_engines
from runtime.config.inference import DisaggregatedInference, MultiNodeInference
from runtime.config.rl import RLConfig
from runtime.config.source import EvalSampling, TrainSampling
from runtime.config.trainer_model import ActivationCheckpoint, Tokenizer
from runtime.config.transport import (
    EngineBroadcast,
    FilesystemBroadcast,
    NCCLBroadcast,
    NIXLBroadcast,
    SharedNCCLBroadcast,
    SharedNIXLBroadcast,
)

DEFAULT_BATCH_SIZE = 128
_POLICY_BODY = {"top_k": -1, "min_p": 0.0, "return_token_ids": True}
_T = TypeVar("_T", bound=Block)


def derive(config: RLConfig, *, digest: str) -> None:
    """Fill in every derived value; `digest` names a run that has no name."""
    _nodes(config)
    _names(config, digest)
    _resume(config)
    _trainer(config)
    _orchestrator(config)
    _sources(config)
    _lora(config)
    derive_engines(config)
    _broadcast(config)
    if config.rollout_transport is None:
        config.rollout_transport = config.trainer.rollout_transport.model_copy()


def _nodes(config: RLConfig) -> None:
    deployment = config.deployment
    if not isinstance(deployment, MultiNodeDeployment):
        return
    if deployment.num_infer_nodes is None:
        below = config.inference.deployment if config.inference else None
        if isinstance(below, MultiNodeInference | DisaggregatedInference):
            deployment.num_infer_nodes = below.num_nodes
        else:
            deployment.num_infer_nodes = 0 if below is None else 1
    if deployment.nodes_per_fsdp_group is not None:
        config.trainer.model.dp_replicate = (
            deployment.num_train_nodes // deployment.nodes_per_fsdp_group
        )


def _names(config: RLConfig, digest: str) -> None:
    if config.run.name is None:
        names = dict.fromkeys(source.resolved_name for source in config.orchestrator.train.source)
        model = config.trainer.model.name.rstrip("/").split("/")[-1]
        config.run.name = f"{'+'.join(names) or 'no-env'}--{model}--{digest[:8]}".lower()
    if config.run.dir is None:
        config.run.dir = config.run.name
    run_dir = config.output_dir / config.run.dir
    config.trainer.output_dir = run_dir
    config.orchestrator.output_dir = run_dir
    prime, wandb = config.orchestrator.monitors.prime, config.orchestrator.monitors.wandb
    if prime is not None and prime.name is None:
        prime.name = (wandb.name if wandb else None) or config.run.name
    for monitor in (
        config.monitors.wandb,
        config.monitors.prime,
        config.trainer.monitors.wandb,
        config.orchestrator.monitors.wandb,
    ):
        if monitor is not None and monitor.name is None:
            monitor.name = config.run.name


def _resume(config: RLConfig) -> None:
    if config.resume is not None:
        config.trainer.resume = config.resume.model_copy()
        config.orchestrator.resume = config.resume.model_copy()


def _trainer(config: RLConfig) -> None:
    trainer = config.trainer
    _tokenizer(trainer.tokenizer, trainer.model.name, trainer.model.trust_remote_code)
    if trainer.model.ac_offloading is not None and trainer.model.ac is None:
        trainer.model.ac = ActivationCheckpoint()
    if trainer.model.ac is not None:
        trainer.model.ac.targets = list(dict.fromkeys(trainer.model.ac.targets))
    if trainer.model.ep_comm_backend == "deepep" or trainer.model.full_offload is not None:
        trainer.optim.max_norm = None


def _orchestrator(config: RLConfig) -> None:
    orchestrator, model = config.orchestrator, config.trainer.model
    _tokenizer(
        orchestrator.tokenizer, orchestrator.model.name, orchestrator.model.trust_remote_code
    )
    if orchestrator.batch_size is None and orchestrator.token_batch_size is None:
        orchestrator.batch_size = DEFAULT_BATCH_SIZE
    headers = orchestrator.model.client.extra_headers_from_state
    orchestrator.model.client.extra_headers_from_state = {
        "X-Session-ID": "trajectory_id",
        **headers,
    }
    orchestrator.pad_to_multiple_of = model.cp
    gpus = config.deployment.total_train_gpus
    if gpus > 1:
        orchestrator.num_train_workers = gpus // model.cp


def _sources(config: RLConfig) -> None:
    orchestrator = config.orchestrator
    train, evals = orchestrator.train, orchestrator.eval
    for source in train.source:
        source.name = source.resolved_name
        source.sampling = _merged(train.sampling, source.sampling, TrainSampling)
        if "group_size" not in source.model_fields_set:
            source.group_size = orchestrator.group_size
        if source.algo is None:
            source.algo = orchestrator.algo.model_copy(deep=True)
        if source.algo.sampling.source == "policy":
            source.sampling.extra_body = {**_POLICY_BODY, **source.sampling.extra_body}
    for source in evals.source if evals else []:
        assert evals is not None, "a source without its table"
        source.name = source.resolved_name
        source.sampling = _merged(evals.sampling, source.sampling, EvalSampling)
        for key in ("num_examples", "group_size", "interval"):
            if key not in source.model_fields_set:
                setattr(source, key, getattr(evals, key))


def _merged(shared: _T, own: _T, table: type[_T]) -> _T:
    return table.model_validate(
        {**shared.model_dump(exclude_unset=True), **own.model_dump(exclude_unset=True)}
    )


def _lora(config: RLConfig) -> None:
    lora = config.trainer.model.lora
    if lora is None:
        return
    served = config.orchestrator.model.lora or OrchestratorLoRA()
    served.rank, served.alpha = lora.rank, lora.alpha
    served.name = served.name or f"r{lora.rank}-a{lora.alpha}"
    config.orchestrator.model.lora = served


def _tokenizer(tokenizer: Tokenizer, model: str, trust_remote_code: bool) -> None:
    tokenizer.name = tokenizer.name or model
    if tokenizer.trust_remote_code is None:
        tokenizer.trust_remote_code = trust_remote_code


def _broadcast(config: RLConfig) -> None:
    if config.weight_broadcast is None:
        by_files = config.trainer.model.lora is not None or config.inference is None
        config.weight_broadcast = FilesystemBroadcast() if by_files else SharedNCCLBroadcast()
    shared = config.weight_broadcast
    receivers = max(1, config.deployment.total_infer_gpus if config.inference else 1)
    for component in (config.trainer, config.orchestrator):
        if isinstance(shared, FilesystemBroadcast):
            component.weight_broadcast = FilesystemBroadcast()
        elif isinstance(shared, SharedNIXLBroadcast):
            component.weight_broadcast = NIXLBroadcast(
                **shared.model_dump(), inference_world_size=receivers
            )
        else:
            component.weight_broadcast = NCCLBroadcast(
                **shared.model_dump(), inference_world_size=receivers
            )
    trainer = config.trainer.weight_broadcast
    if config.deployment.type == "multi_node" and isinstance(trainer, NCCLBroadcast):
        trainer.host = "0.0.0.0"  # noqa: S104 - prime-rl's value: the trainer binds it in its pod
    if config.inference is not None:
        config.inference.weight_broadcast = EngineBroadcast(type=shared.type)
