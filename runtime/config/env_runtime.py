"""Where an agent of an environment runs, and how its requests are routed to the policy.

These tables belong to the verifiers package; their keys are those of its 0.3.1.dev62, which the
mirrored prime-rl pins.
"""

from typing import Annotated, Literal

from pydantic import Field

from runtime.config.block import Block, Count, Port
from runtime.config.renderer import Renderer


class SubprocessRuntime(Block):
    """A process beside the env server: no isolation, no further service."""

    type: Literal["subprocess"] = "subprocess"
    """Picks this variant."""


class FilteredRuntime(Block):
    """A runtime whose network can be filtered."""

    allow: list[str] = ["*"]
    """Hosts that may be reached."""

    block: list[str] = []
    """Hosts that may not, stronger than `allow`."""


class DockerRuntime(FilteredRuntime):
    """A container of a Docker daemon beside the env server."""

    type: Literal["docker"] = "docker"
    """Picks this variant."""

    image: str = "python:3.11-slim"
    """Image of the container."""

    workdir: str = "/app"
    """Directory that the agent starts in."""

    cpu: float | None = None
    """CPUs; unset = no limit."""

    memory: float | None = None
    """GiB of memory; unset = no limit."""

    gpu: str | None = None
    """GPUs, as Docker spells them; unset = none."""

    disk: float | None = None
    """GiB of disk; unset = no limit."""


class PrimeRuntime(FilteredRuntime):
    """A sandbox of the Prime platform; needs PRIME_API_KEY. Upstream's default."""

    type: Literal["prime"] = "prime"
    """Picks this variant; may be left out."""

    image: str = "python:3.11-slim"
    """Image of the sandbox."""

    workdir: str = "/app"
    """Directory that the agent starts in."""

    vm: bool = True
    """A virtual machine instead of a container."""

    guaranteed: bool = False
    """Reserved instead of shared resources."""

    region: str | None = None
    """Where the sandbox runs; unset = anywhere."""

    labels: list[str] = []
    """Labels, to find sandboxes by."""

    cpu: float = 1.0
    """CPUs."""

    memory: float = 2.0
    """GiB of memory."""

    gpu: str | None = None
    """GPU type; unset = none."""

    disk: float = 5.0
    """GiB of disk."""

    idle_timeout: float | None = 3600
    """Seconds without use until the sandbox ends by itself."""

    creates_per_min: int | None = None
    """Most sandboxes to start a minute; unset = no limit."""


class ModalRuntime(Block):
    """A sandbox of Modal; needs its credentials."""

    type: Literal["modal"] = "modal"
    """Picks this variant."""

    image: str = "python:3.11-slim"
    """Image of the sandbox."""

    workdir: str = "/app"
    """Directory that the agent starts in."""

    network_access: bool = True
    """Whether the sandbox reaches the network."""

    region: str | None = None
    """Where the sandbox runs; unset = anywhere."""

    cpu: float = 1.0
    """CPUs."""

    memory: float = 2.0
    """GiB of memory."""

    gpu: str | None = None
    """GPU type; unset = none."""

    disk: float = 5.0
    """GiB of disk."""

    creates_per_sec: float | None = 40.0
    """Most sandboxes to start a second; "None" = no limit."""


class PrimeTunnel(Block):
    """A tunnel of the Prime platform to the interception server."""

    type: Literal["prime"] = "prime"
    """Picks this variant."""


class CustomTunnel(Block):
    """An address of the user's that leads to the interception server."""

    type: Literal["custom"] = "custom"
    """Picks this variant."""

    url: str
    """Address that agents call."""

    port: Port
    """Local port that it leads to."""


class InterceptionServer(Block):
    """One server that passes agents' requests on to the policy."""

    type: Literal["server"] = "server"
    """Picks this variant."""

    tunnel: Annotated[PrimeTunnel | CustomTunnel, Field(discriminator="type")] = PrimeTunnel()
    """How sandboxes reach it."""


class StaticInterception(Block):
    """A fixed list of such servers."""

    type: Literal["static"] = "static"
    """Picks this variant."""

    servers: Annotated[list[InterceptionServer], Field(min_length=1)]
    """The servers."""


class ElasticInterception(Block):
    """As many such servers as are needed."""

    type: Literal["elastic"] = "elastic"
    """Picks this variant; may be left out."""

    multiplex: Count = 32
    """Agents a server."""


class EvalClient(Block):
    """An endpoint other than the policy's, for one agent."""

    type: Literal["eval"] = "eval"
    """Picks this variant."""

    base_url: str = "https://api.pinference.ai/api/v1"
    """OpenAI-compatible endpoint."""

    api_key_var: str = "PRIME_API_KEY"
    """Name of the environment variable that holds the key; never the key."""

    headers: dict[str, str] = {}
    """Headers of every request; no secrets, the file is stored."""


class TrainClient(EvalClient):
    """An endpoint that takes and returns tokens."""

    type: Literal["train"] = "train"  # type: ignore[assignment]  # a variant of its parent
    """Picks this variant."""

    renderer: Renderer | None = None
    """How messages become tokens; unset = by the model's id."""

    renderer_model_name: str | None = None
    """Model id to look the renderer up by."""

    multiplex: Count = 256
    """Requests a connection."""


Runtime = Annotated[
    SubprocessRuntime | DockerRuntime | PrimeRuntime | ModalRuntime, Field(discriminator="type")
]
Interception = Annotated[
    InterceptionServer | StaticInterception | ElasticInterception, Field(discriminator="type")
]
AgentClient = Annotated[EvalClient | TrainClient, Field(discriminator="type")]
