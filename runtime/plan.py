"""RunPlan: what a run needs, as a value; the only place where GPUs, nodes and replicas are counted.

Pure: a resolved config and a few plain settings in, a plan out. It can be printed, tested, stored
as JSON and read back. How a role becomes processes or pods is `runtime.launch`; whether the plan
may run is `runtime.admission`.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

from runtime import gpus, naming
from runtime.cluster import ClusterProfile
from runtime.config import LoadedConfig, RLConfig

Target = Literal["local", "kubernetes"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPool:
    """The GPUs of a run: `num_nodes` of `gpus_per_node`, of a type or of any (None)."""

    gpu_type: str | None
    num_nodes: int
    gpus_per_node: int
    exclusive_nodes: bool

    @property
    def num_gpus(self) -> int:
        """Return all GPUs of the pool."""
        return self.num_nodes * self.gpus_per_node


@dataclass(frozen=True, kw_only=True, slots=True)
class RolePlan:
    """One role of a run: `num_pods` pods (local: groups of processes) of `gpus_per_pod` GPUs.

    `tensor_parallel` and `data_parallel` describe inference: GPUs an engine and engines a pod. An
    env server has the `split` and the `source` that it serves; `index` counts sources as prime-rl
    does (train first, then eval, external ones keep their number).
    """

    role: str
    num_pods: int = 1
    gpus_per_pod: int = 0
    tensor_parallel: int = 1
    data_parallel: int = 1
    split: str = ""
    source: str = ""
    index: int = 0

    @property
    def num_gpus(self) -> int:
        """Return the GPUs of all pods of the role."""
        return self.num_pods * self.gpus_per_pod

    @property
    def num_engines(self) -> int:
        """Return the inference engines of the role, each with its own port and admin URL."""
        return self.num_pods * self.data_parallel if self.role == naming.INFERENCE else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlan:
    """Everything that a target needs to place a run."""

    run_id: str
    attempt: int
    name: str
    config_digest: str
    deployment: str
    target: Target
    image_tag: str
    pool: GpuPool
    roles: tuple[RolePlan, ...]
    model: str
    tasksets: tuple[str, ...]
    max_steps: int | None
    weight_broadcast: str
    rollout_transport: str
    checkpoints: bool
    price_usd_per_hour: float | None
    null_harness: str = "in-process"
    model_path: str | None = None

    @property
    def num_gpus(self) -> int:
        """Return the GPUs of all roles."""
        return sum(role.num_gpus for role in self.roles)

    @property
    def num_pods(self) -> int:
        """Return the pods (local: component groups) of all roles."""
        return sum(role.num_pods for role in self.roles)

    def role(self, name: str) -> RolePlan | None:
        """Return the first role of a name, or None."""
        return next((role for role in self.roles if role.role == name), None)


_ADAPTER = TypeAdapter(RunPlan)


def plan_to_json(plan: RunPlan) -> str:
    """Return the plan as JSON; `plan_from_json` reads it back to an equal value."""
    return _ADAPTER.dump_json(plan, indent=2).decode()


def plan_from_json(text: str | bytes) -> RunPlan:
    """Return the plan that `plan_to_json` wrote."""
    return _ADAPTER.validate_json(text)


def build_plan(
    loaded: LoadedConfig,
    *,
    run_id: str,
    attempt: int = 1,
    profile: ClusterProfile | None = None,
    null_harness: str = "in-process",
) -> RunPlan:
    """Return the plan of a run; without a profile it is that of any Kubernetes cluster."""
    config = loaded.config
    target: Target = "local" if profile is not None and profile.target == "local" else "kubernetes"
    roles = _roles(config, target)
    num_gpus = sum(role.num_gpus for role in roles)
    gpu_type = _gpu_type(loaded, num_gpus=num_gpus, profile=profile)
    transport = config.rollout_transport or config.trainer.rollout_transport
    return RunPlan(
        run_id=run_id,
        attempt=attempt,
        name=config.run.name or run_id,
        config_digest=loaded.digest,
        deployment=config.deployment.type,
        target=target,
        image_tag=loaded.dispatch.image_tag,
        pool=_pool(config, gpu_type=gpu_type, num_gpus=num_gpus),
        roles=roles,
        model=config.trainer.model.name,
        tasksets=_tasksets(config),
        max_steps=config.max_steps,
        weight_broadcast=config.trainer.weight_broadcast.type,
        rollout_transport=transport.type,
        checkpoints=config.trainer.ckpt is not None,
        price_usd_per_hour=_price(gpu_type, num_gpus=num_gpus, profile=profile),
        null_harness=null_harness,
    )


def _roles(config: RLConfig, target: Target) -> tuple[RolePlan, ...]:
    trainer = _trainer(config)
    inference = _inference(config)
    router = []
    if inference is not None and inference.num_engines > 1 and target == "kubernetes":
        router = [RolePlan(role=naming.ROUTER)]
    return (
        trainer,
        *([inference] if inference is not None else []),
        *router,
        RolePlan(role=naming.ORCHESTRATOR),
        *_env_servers(config),
    )


def _trainer(config: RLConfig) -> RolePlan:
    deployment = config.deployment
    if deployment.type == "multi_node":
        return RolePlan(
            role=naming.TRAINER,
            num_pods=deployment.num_train_nodes,
            gpus_per_pod=deployment.gpus_per_node,
        )
    return RolePlan(role=naming.TRAINER, gpus_per_pod=deployment.num_train_gpus)


def _inference(config: RLConfig) -> RolePlan | None:
    if config.inference is None:
        return None
    deployment = config.deployment
    tensor_parallel = config.inference.vllm.tensor_parallel_size
    if deployment.type == "multi_node":
        num_pods = (deployment.num_infer_nodes or 0) * deployment.num_infer_replicas
        gpus_per_pod = deployment.gpus_per_node
    else:
        num_pods, gpus_per_pod = 1, deployment.num_infer_gpus
    if num_pods * gpus_per_pod == 0:
        return None
    return RolePlan(
        role=naming.INFERENCE,
        num_pods=num_pods,
        gpus_per_pod=gpus_per_pod,
        tensor_parallel=tensor_parallel,
        data_parallel=gpus_per_pod // tensor_parallel,
    )


def sources(config: RLConfig) -> list[tuple[str, int]]:
    """Return (split, index in its list) of every source in prime-rl's order: train, then eval."""
    train = [("train", index) for index in range(len(config.orchestrator.train.source))]
    eval_block = config.orchestrator.eval
    return train + [("eval", index) for index in range(len(eval_block.source) if eval_block else 0)]


def _env_servers(config: RLConfig) -> list[RolePlan]:
    roles = []
    for index, (split, position) in enumerate(sources(config)):
        block = config.orchestrator.train if split == "train" else config.orchestrator.eval
        assert block is not None
        source = block.source[position]
        if source.serve.address is not None:
            continue  # an external env server: paddock connects to it and starts nothing
        assert source.name is not None, "the resolved config names every source"
        roles.append(RolePlan(role=naming.ENV_SERVER, split=split, source=source.name, index=index))
    return roles


def _tasksets(config: RLConfig) -> tuple[str, ...]:
    found: list[str] = []
    for split, position in sources(config):
        block = config.orchestrator.train if split == "train" else config.orchestrator.eval
        assert block is not None
        taskset = block.source[position].taskset_id
        if taskset and taskset not in found:
            found.append(taskset)
    return tuple(found)


def _pool(config: RLConfig, *, gpu_type: str | None, num_gpus: int) -> GpuPool:
    deployment = config.deployment
    if deployment.type == "multi_node":
        return GpuPool(
            gpu_type=gpu_type,
            num_nodes=num_gpus // deployment.gpus_per_node,
            gpus_per_node=deployment.gpus_per_node,
            exclusive_nodes=True,
        )
    return GpuPool(gpu_type=gpu_type, num_nodes=1, gpus_per_node=num_gpus, exclusive_nodes=False)


def _gpu_type(loaded: LoadedConfig, *, num_gpus: int, profile: ClusterProfile | None) -> str | None:
    """Return the asked type, else the cheapest of the cluster that is big enough, else None."""
    if loaded.dispatch.gpu_type is not None or profile is None:
        return loaded.dispatch.gpu_type
    deployment = loaded.config.deployment
    per_node = deployment.gpus_per_node if deployment.type == "multi_node" else num_gpus
    fitting = [
        offer
        for offer in profile.gpus
        if offer.gpus_per_node >= per_node and offer.num_gpus >= num_gpus
    ]
    if not fitting:
        return None
    return min(fitting, key=lambda offer: (offer.price_usd_per_hour, offer.name)).name


def _price(gpu_type: str | None, *, num_gpus: int, profile: ClusterProfile | None) -> float | None:
    if gpu_type is None:
        return None
    offer = profile.offer(gpu_type) if profile is not None else None
    if offer is not None:
        return num_gpus * offer.price_usd_per_hour
    known = gpus.GPU_TYPES.get(gpu_type)
    return num_gpus * known.price_usd_per_hour if known is not None and profile is None else None


def list_price_range(num_gpus: int) -> tuple[float, float]:
    """Return the lowest and highest list price in $/hour for GPUs of any type."""
    prices = [gpu.price_usd_per_hour for gpu in gpus.GPU_TYPES.values() if gpu.memory_gib > 0]
    return num_gpus * min(prices), num_gpus * max(prices)
