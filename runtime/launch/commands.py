"""Commands: the argv and the public environment of each component.

Pure. `prime-rl` is what the image runs (prime-rl's entry points), `embedded` the same shape with
the modules of `runtime.rl`. Secrets are not here: they reach a component by its env file or Secret.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from runtime import naming
from runtime.launch.addresses import AddressBook
from runtime.launch.components import HTTP, METRICS, RDZV, RPC, SIDE_CHANNEL, Component
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """One process of a component: its argv, what it adds to the environment, a file of its own.

    A pod of several engines runs one process an engine, each on its slice of the pod's GPUs. The
    file at `overrides_path` holds vLLM arguments that have no flag; it is none where that is "".
    """

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    overrides_path: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)  # Any: vLLM's argument values


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
_ALL2ALL = {"prefill": "deepep_high_throughput", "decode": "deepep_low_latency"}
_ALL_HOSTS = "0.0.0.0"  # noqa: S104 - a pod's own address; NetworkPolicies guard it

# prime-rl's launcher sets these for every component, TRAIN and INFER ones for the two GPU roles.
_COMMON = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "1",
}
_OF_ROLE: Mapping[str, Mapping[str, str]] = {
    naming.TRAINER: {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    naming.INFERENCE: {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_ENGINE_READY_TIMEOUT_S": "4200",
        "UCX_TLS": "all",
    },
}


def component_commands(component: Component, site: Site) -> tuple[Command, ...]:
    """Return the processes of a component: one, or one an engine in an inference pod."""
    role = component.role
    if role.role != naming.INFERENCE or site.engine == "embedded":
        return (Command(argv=component_argv(component, site)),)
    return tuple(_engine(component, site, rank) for rank in range(role.data_parallel))


def component_argv(component: Component, site: Site) -> tuple[str, ...]:
    """Return the command line of a component (of an inference pod: of its first engine).

    It is empty for a router that paddock does not start (llm-d); admission refuses it on a cluster.
    """
    role = component.role.role
    if role == naming.ROUTER:
        return _router_argv(component, site.book) if component.role.policy else ()
    config = f"{site.run_path}/configs/{config_file(component)}"
    if role == naming.TRAINER:
        return _trainer_argv(component, site, config=config)
    if site.engine == "prime-rl":
        if role == naming.INFERENCE:
            return _engine(component, site, 0).argv
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
    return f"{role.role}-{role.part}.json" if role.part else f"{role.role}.json"


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
        # Static, as in prime-rl's own launcher: c10d deals the ranks anew, and the weights leave
        # from the pod that has rank 0.
        f"--node-rank={component.pod}",
        "--rdzv-backend=static",
        f"--rdzv-endpoint={rdzv.host}:{rdzv.port}",
        "--rdzv-id=trainer",
        "--max-restarts=0",
        "--local-ranks-filter=0",
        "-m",
        module,
        "@",
        config,
    )


def _engine(component: Component, site: Site, rank: int) -> Command:
    """Return the process of one engine of a pod, as prime-rl's launcher starts it on a node."""
    role = component.role
    configs = f"{site.run_path}/configs"
    argv = (
        *_PRIME_RL[naming.INFERENCE],
        "@",
        f"{configs}/{config_file(component)}",
        *("--server.host", _ALL_HOSTS),
        *("--server.port", str(site.book[component.name, f"{HTTP}-{rank}"].port)),
        *("--vllm.data-parallel-size", str(role.group_size)),
        *("--vllm.data-parallel-size-local", "1"),
        *("--vllm.api-server-count", "1"),
    )
    first = rank * role.tensor_parallel
    devices = range(first, first + role.tensor_parallel)
    env = {
        "CUDA_VISIBLE_DEVICES": ",".join(str(device) for device in devices),
        "VLLM_RPC_BASE_PATH": f"/tmp/vllm-rank{rank}",  # noqa: S108 - the pod's own
    }
    if role.part:
        argv += ("--vllm.all2all-backend", _ALL2ALL[role.part])
        side = site.book[component.name, f"{SIDE_CHANNEL}-{rank}"]
        env |= {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": side.host,
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side.port),
        }
    if role.group_size == 1:
        return Command(argv=argv, env=env)
    head = component.pod - component.pod % role.pods_per_group
    head_name = naming.component_name(role.role, index=head, part=role.part)
    rpc = site.book[head_name, RPC]
    path = f"inference/{component.name}_rank{rank}.json"
    return Command(
        argv=(
            *argv,
            *("--vllm.data-parallel-rpc-port", str(rpc.port)),
            *("--vllm", "@", f"{configs}/{path}"),
        ),
        env=env,
        overrides_path=path,
        overrides={
            "data_parallel_rank": (component.pod - head) * role.data_parallel + rank,
            "data_parallel_address": rpc.host,
        },
    )


def _router_argv(component: Component, book: AddressBook) -> tuple[str, ...]:
    engines = [
        (name, f"http://{address.host}:{address.port}")
        for (name, port), address in book.items()
        if name.startswith(f"{naming.INFERENCE}-") and port.startswith(f"{HTTP}-")
    ]
    argv = (
        "vllm-router",
        *("--policy", component.role.policy),
        *("--host", _ALL_HOSTS),
        *("--port", str(book[component.name, HTTP].port)),
        *("--prometheus-port", str(book[component.name, METRICS].port)),
        *("--request-id-headers", "x-session-id"),
        *("--worker-startup-timeout-secs", "4200"),
    )
    parts = {
        part: [url for name, url in engines if name.startswith(f"{naming.INFERENCE}-{part}-")]
        for part in ("prefill", "decode")
    }
    if not any(parts.values()):
        return (*argv, "--worker-urls", *(url for _, url in engines))
    return (
        *argv,
        "--vllm-pd-disaggregation",
        *(word for url in parts["prefill"] for word in ("--prefill", url)),
        *(word for url in parts["decode"] for word in ("--decode", url)),
    )
