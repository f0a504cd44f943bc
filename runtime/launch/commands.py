"""Commands: the argv and the public environment of each component.

Pure. `prime-rl` is what the image runs (prime-rl's entry points), `embedded` the same shape with
the modules of `runtime.rl`. Secrets are not here: they reach a component by its env file or Secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from runtime import naming
from runtime.launch.addresses import AddressBook
from runtime.launch.components import HTTP, RDZV, Component
from runtime.plan import RunPlan

Engine = Literal["prime-rl", "embedded"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Where a run's components are started: its directory, addresses and engine.

    `python` is the interpreter of the embedded engine's components.
    """

    run_path: str
    book: AddressBook
    engine: Engine
    python: str = "python"


_PRIME_RL = {
    naming.INFERENCE: ("inference",),
    naming.ORCHESTRATOR: ("orchestrator",),
    naming.ENV_SERVER: ("env-server",),
}
_EMBEDDED = {
    naming.INFERENCE: ("runtime.rl.inference",),
    naming.ORCHESTRATOR: ("runtime.rl.orchestrator",),
    naming.ENV_SERVER: ("runtime.rl.env_server",),
}

# prime-rl's launcher sets these for every component, TRAIN and INFER ones for the two GPU roles.
_COMMON = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
}
_OF_ROLE: Mapping[str, Mapping[str, str]] = {
    naming.TRAINER: {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    naming.INFERENCE: {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"},
}


def component_argv(component: Component, site: Site) -> tuple[str, ...]:
    """Return the command line of a component."""
    role = component.role.role
    if role == naming.ROUTER:
        return _router_argv(component, site.book)
    config = f"{site.run_path}/configs/{config_file(component)}"
    if role == naming.TRAINER:
        return _trainer_argv(component, site, config=config)
    if site.engine == "prime-rl":
        return (*_PRIME_RL[role], "@", config)
    argv = (site.python, "-m", *_EMBEDDED[role], "@", config)
    if role == naming.INFERENCE:
        port = site.book[component.name, component.ports[0].name].port
        argv += ("--server.port", str(port))
    return argv


def config_file(component: Component) -> str:
    """Return the split file that a component reads, relative to the configs folder."""
    role = component.role
    if role.role == naming.ENV_SERVER:
        return f"envs/{role.split}/{role.source}.json"
    return f"{role.role}.json"


def component_environment(
    component: Component, plan: RunPlan, *, env_vars: Mapping[str, str]
) -> dict[str, str]:
    """Return the public environment: defaults, then the config's env_vars, then what is protected.

    `env_vars` is the config's [env_vars] with the component's own table merged over it.
    """
    return {
        **_COMMON,
        **_OF_ROLE.get(component.role.role, {}),
        **env_vars,
        "PRL_RUN_ID": plan.run_id,
        "PRL_RUN_NAME": plan.name,
        "PADDOCK_RUN_ID": plan.run_id,
        "PADDOCK_ATTEMPT": str(plan.attempt),
        "PADDOCK_COMPONENT": component.name,
    }


def _trainer_argv(component: Component, site: Site, *, config: str) -> tuple[str, ...]:
    rdzv = site.book[naming.component_name(naming.TRAINER), RDZV]
    if site.engine == "prime-rl":
        head, module = ("torchrun",), "prime_rl.trainer.rl.train"
    else:
        head, module = (site.python, "-m", "torch.distributed.run"), "runtime.rl.trainer"
    return (
        *head,
        "--role=trainer",
        f"--nnodes={component.role.num_pods}",
        f"--nproc-per-node={component.role.gpus_per_pod}",
        f"--node-rank={component.pod}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={rdzv.host}:{rdzv.port}",
        "--rdzv-id=trainer",
        "--max-restarts=0",
        "--local-ranks-filter=0",
        "-m",
        module,
        "@",
        config,
    )


def _router_argv(component: Component, book: AddressBook) -> tuple[str, ...]:
    engines = [
        f"http://{address.host}:{address.port}"
        for (name, port), address in book.items()
        if name.startswith(f"{naming.INFERENCE}-") and port.startswith(HTTP)
    ]
    return (
        "vllm-router",
        "--policy",
        "consistent_hash",
        "--host",
        "0.0.0.0",  # noqa: S104 - a pod's own address; nothing but the run reaches it
        "--port",
        str(book[component.name, HTTP].port),
        "--request-id-headers",
        "x-session-id",
        "--worker-startup-timeout-secs",
        "4200",
        "--worker-urls",
        *engines,
    )
