"""The public environment of a run's containers. Pure; secret values come by envFrom only."""

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.pod_resources import has_rdma
from infra.k8s.pod_volumes import models_read_only
from runtime import naming, pod_names
from runtime.config import RLConfig
from runtime.config.inference import DisaggregatedInference
from runtime.launch.commands import component_environment
from runtime.pod_layout import COMPILE_DIR, HF_HOME, JOB_INDEX_VARIABLE
from runtime.pod_literals import literal
from runtime.pod_transport import is_efa

_DATASETS_CACHE = "/tmp/hf-datasets"  # noqa: S108 - in the pod's own file system

_COMPILE_CACHES = {
    "TORCHINDUCTOR_CACHE_DIR": f"{COMPILE_DIR}/inductor",
    "TRITON_CACHE_DIR": f"{COMPILE_DIR}/triton",
    "VLLM_CACHE_ROOT": f"{COMPILE_DIR}/vllm",
}
_RDMA = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}
# The lines by which a run that fell back to sockets is known.
_EFA = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1"}


def environment(group: JobGroup, placed: PlacedRun, *, job_index: int | None) -> list[Manifest]:
    """Return the environment of a group's containers; without a job index it is JobSet's label."""
    label = pod_names.LABEL_JOB_INDEX if job_index is not None else pod_names.JOB_SET_JOB_INDEX
    field = {"fieldPath": f"metadata.labels['{label}']"}
    values = _values(group, placed)
    return [
        {"name": JOB_INDEX_VARIABLE, "valueFrom": {"fieldRef": field}},
        *({"name": name, "value": literal(values[name])} for name in sorted(values)),
    ]


def env_from(group: JobGroup, placed: PlacedRun) -> list[Manifest]:
    """Return the Secret of the run for the roles that run the user's code, so not the router."""
    if group.role == naming.ROUTER:
        return []
    name = pod_names.secret_name(placed.plan.run_id, placed.plan.attempt)
    return [{"secretRef": {"name": name}}]


def config_env_vars(group: JobGroup, config: RLConfig) -> dict[str, str]:
    """Return what the file's env_vars tables say for a role, the more special table last."""
    inference = config.inference
    if group.role == naming.TRAINER:
        return {**config.env_vars, **config.trainer.env_vars}
    if group.role in {naming.INFERENCE, naming.ROUTER} and inference is not None:
        part: dict[str, str] = {}
        if isinstance(inference.deployment, DisaggregatedInference):
            below = inference.deployment
            tables = {"prefill": below.prefill_env_vars, "decode": below.decode_env_vars}
            part = tables.get(group.first.role.part, {})
        return {**config.env_vars, **inference.env_vars, **part}
    return {**config.env_vars, **config.orchestrator.env_vars}


def _values(group: JobGroup, placed: PlacedRun) -> dict[str, str]:
    values = component_environment(
        group.first,
        placed.plan,
        env_vars={
            **_caches(group, placed),
            **_transport(group, placed),
            **config_env_vars(group, placed.config),
        },
    )
    if group.component != group.first.name:
        del values[naming.ENV_COMPONENT]  # one template for several components
    return values


def _caches(group: JobGroup, placed: PlacedRun) -> dict[str, str]:
    """Return where models and kernels are cached, and whether the hub may be asked at all.

    A cached model keeps the GPU roles off the hub. The orchestrator and the env servers load data
    sets too, of which it says nothing.
    """
    if models_read_only(placed):
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": _DATASETS_CACHE}
        return {"HF_HOME": HF_HOME, **offline}
    values = {"HF_HOME": HF_HOME}
    if not group.has_gpus:
        return values
    is_cached = placed.plan.model in placed.profile.models
    return values | _COMPILE_CACHES | ({"HF_HUB_OFFLINE": "1"} if is_cached else {})


def _transport(group: JobGroup, placed: PlacedRun) -> dict[str, str]:
    if not has_rdma(group, placed):
        return {}
    assert placed.offer is not None
    return {**_RDMA, **(_EFA if is_efa(placed.offer.rdma_resource or "") else {})}
