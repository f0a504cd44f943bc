"""RunPlan: what a run needs, as a value; the only place where GPUs, nodes and replicas are counted.

Pure: a resolved config and a few plain settings in, a plan out. It can be printed, tested, stored
as JSON and read back. How a role becomes processes or pods is `runtime.launch`; whether the plan
may run is `runtime.admission`.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from pydantic import TypeAdapter

from runtime import naming, outside
from runtime.cluster import ClusterProfile
from runtime.config import LoadedConfig, MultiNodeDeployment, RLConfig
from runtime.config.inference import DisaggregatedInference
from runtime.gpu_choice import choose_gpu_type, price_usd_per_hour
from runtime.pod_ports import PodPorts, pod_ports

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

    `tensor_parallel` and `data_parallel` describe inference: GPUs an engine and engines a pod.
    `part` is prefill or decode where they are apart. An inference replica has `pods_per_replica`
    pods of the role; with `expert_parallel` the engines of `pods_per_group` of them hold one set of
    experts. A router has its `policy`, none where it is not vLLM's. An env server has the `split`
    and the `source` that it serves; `index` counts sources as prime-rl does (train first, then
    eval, external ones keep their number).
    """

    role: str
    num_pods: int = 1
    gpus_per_pod: int = 0
    tensor_parallel: int = 1
    data_parallel: int = 1
    part: str = ""
    pods_per_replica: int = 1
    pods_per_group: int = 1
    expert_parallel: bool = False
    policy: str = ""
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

    @property
    def num_replicas(self) -> int:
        """Return the replicas that the pods make up."""
        return self.num_pods // self.pods_per_replica

    @property
    def group_size(self) -> int:
        """Return the data parallel size of an engine: 1, or the engines that share experts."""
        return self.pods_per_group * self.data_parallel if self.expert_parallel else 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPlan:
    """Everything that a target needs to place a run.

    `resume_from` is the checkpoint that it starts with, as `runtime.resume_from` reads it.
    """

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
    volume: str | None = None
    resume_from: str | None = None
    ports: PodPorts = PodPorts()  # noqa: RUF009 - frozen
    num_train_workers: int = 1
    lora: bool = False
    environments: tuple[str, ...] = ()
    endpoints: tuple[outside.Endpoint, ...] = ()
    unplaced: tuple[outside.Unplaced, ...] = ()

    @property
    def num_gpus(self) -> int:
        """Return the GPUs of all roles."""
        return sum(role.num_gpus for role in self.roles)

    @property
    def num_pods(self) -> int:
        """Return the pods (local: component groups) of all roles."""
        return sum(role.num_pods for role in self.roles)

    @property
    def trainer_world_size(self) -> int:
        """Return the trainer's ranks: one a GPU."""
        return sum(role.num_gpus for role in self.roles if role.role == naming.TRAINER)

    @property
    def inference_world_size(self) -> int:
        """Return the ranks that receive weights: one an inference GPU; 0 when served elsewhere."""
        return sum(role.num_gpus for role in self.roles if role.role == naming.INFERENCE)

    @property
    def num_engines(self) -> int:
        """Return the inference engines of all roles: the admin URLs of the run."""
        return sum(role.num_engines for role in self.roles)

    def role(self, name: str) -> RolePlan | None:
        """Return the first role of a name, or None."""
        return next((role for role in self.roles if role.role == name), None)


def plan_to_json(plan: RunPlan) -> str:
    """Return the plan as JSON; `plan_from_json` reads it back to an equal value."""
    return _adapter().dump_json(plan, indent=2).decode()


def plan_from_json(text: str | bytes) -> RunPlan:
    """Return the plan that `plan_to_json` wrote."""
    return _adapter().validate_json(text)


@cache
def _adapter() -> TypeAdapter[RunPlan]:
    return TypeAdapter(RunPlan)  # late: an `up` on a cluster writes no plan


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
    pool = _pool(loaded, num_gpus=sum(role.num_gpus for role in roles), profile=profile)
    transport = config.rollout_transport or config.trainer.rollout_transport
    return RunPlan(
        run_id=run_id,
        attempt=attempt,
        name=config.run.name or run_id,
        config_digest=loaded.digest,
        deployment=config.deployment.type,
        target=target,
        image_tag=loaded.dispatch.image_tag,
        pool=pool,
        roles=roles,
        model=config.trainer.model.name,
        tasksets=outside.tasksets(config),
        max_steps=config.max_steps,
        weight_broadcast=config.trainer.weight_broadcast.type,
        rollout_transport=transport.type,
        checkpoints=config.trainer.ckpt is not None,
        price_usd_per_hour=price_usd_per_hour(
            pool.gpu_type, num_gpus=pool.num_gpus, profile=profile
        ),
        null_harness=null_harness,
        volume=loaded.dispatch.volume,
        ports=pod_ports(config),
        num_train_workers=config.orchestrator.num_train_workers,
        lora=config.trainer.model.lora is not None,
        environments=outside.environments(config),
        endpoints=outside.endpoints(config),
        unplaced=outside.unplaced(config),
    )


def _roles(config: RLConfig, target: Target) -> tuple[RolePlan, ...]:
    inference = _inference(config)
    router = []
    if target == "kubernetes" and sum(role.num_engines for role in inference) > 1:
        router = [RolePlan(role=naming.ROUTER, policy=outside.router_policy(config))]
    return (
        _trainer(config),
        *inference,
        *router,
        RolePlan(role=naming.ORCHESTRATOR),
        *_env_servers(config),
    )


def _trainer(config: RLConfig) -> RolePlan:
    deployment = config.deployment
    if isinstance(deployment, MultiNodeDeployment):
        return RolePlan(
            role=naming.TRAINER,
            num_pods=deployment.num_train_nodes,
            gpus_per_pod=deployment.gpus_per_node,
        )
    return RolePlan(role=naming.TRAINER, gpus_per_pod=deployment.num_train_gpus)


def _inference(config: RLConfig) -> tuple[RolePlan, ...]:
    """Return the roles of the engines: none, one, or prefill and decode."""
    deployment, inference = config.deployment, config.inference
    if inference is None:
        return ()
    if not isinstance(deployment, MultiNodeDeployment):
        return _engines(config, nodes=int(deployment.num_infer_gpus > 0))
    below = inference.deployment
    if not isinstance(below, DisaggregatedInference):
        return _engines(config, nodes=deployment.num_infer_nodes or 0)
    prefill = _engines(config, nodes=below.num_prefill_nodes)
    decode = _engines(config, nodes=below.num_decode_nodes)
    return tuple(
        replace(role, part=part, pods_per_group=nodes)
        for roles, part, nodes in (
            (prefill, "prefill", below.prefill_nodes_per_replica),
            (decode, "decode", below.decode_nodes_per_replica),
        )
        for role in roles
    )


def _engines(config: RLConfig, *, nodes: int) -> tuple[RolePlan, ...]:
    """Return the role of the engines on `nodes` nodes a replica; none without a node."""
    deployment, inference = config.deployment, config.inference
    assert inference is not None, "engines without [inference]"
    if nodes == 0:
        return ()
    replicas, gpus_per_pod = 1, deployment.total_infer_gpus
    if isinstance(deployment, MultiNodeDeployment):
        replicas, gpus_per_pod = deployment.num_infer_replicas, deployment.gpus_per_node
    return (
        RolePlan(
            role=naming.INFERENCE,
            num_pods=replicas * nodes,
            gpus_per_pod=gpus_per_pod,
            tensor_parallel=inference.vllm.tensor_parallel_size,
            data_parallel=gpus_per_pod // inference.vllm.tensor_parallel_size,
            pods_per_replica=nodes,
            pods_per_group=nodes,
            expert_parallel=inference.vllm.enable_expert_parallel,
        ),
    )


def _env_servers(config: RLConfig) -> list[RolePlan]:
    """Return one role a source; none for external env servers, which keep their number."""
    return [
        RolePlan(role=naming.ENV_SERVER, split=split, source=source.resolved_name, index=index)
        for index, (split, source) in enumerate(config.orchestrator.sources)
        if source.serve.address is None
    ]


def _pool(loaded: LoadedConfig, *, num_gpus: int, profile: ClusterProfile | None) -> GpuPool:
    deployment = loaded.config.deployment
    whole_nodes = isinstance(deployment, MultiNodeDeployment)
    per_node = deployment.gpus_per_node if whole_nodes else num_gpus
    num_nodes = num_gpus // per_node
    return GpuPool(
        gpu_type=choose_gpu_type(
            loaded.dispatch.gpu_type, num_nodes=num_nodes, gpus_per_node=per_node, profile=profile
        ),
        num_nodes=num_nodes,
        gpus_per_node=per_node,
        exclusive_nodes=whole_nodes,
    )
