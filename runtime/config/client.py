"""How a component reaches an OpenAI-compatible endpoint: the policy's, or a frozen model's."""

from typing import Annotated

from pydantic import Field

from runtime.config.block import Block, Count, NonNegative
from runtime.config.trainer_model import VLM


class ClientOptions(Block):
    """What all clients share."""

    wait_for_ready_timeout: Count = 1800
    """Seconds to wait for the endpoint's /health at start."""

    api_key_var: str = "VLLM_API_KEY"
    """Name of the environment variable that holds the key; never the key."""

    headers: dict[str, str] = {}
    """Headers of every request; no secrets, the file is stored."""

    headers_from_env: dict[str, str] = {}
    """Headers whose values come from environment variables: header -> variable."""

    extra_headers_from_state: dict[str, str] = {}
    """Headers filled from the rollout's state; X-Session-ID = trajectory_id is always added so that
    a router keeps a trajectory on one engine."""

    skip_model_check: bool = False
    """Do not ask /v1/models whether the model is served."""

    admin_base_url: list[str] | None = None
    """Engines to pause, update and resume, past the router; wired by paddock."""


class Client(ClientOptions):
    """`[orchestrator.model.client]`."""

    base_url: str = "http://localhost:8000/v1"
    """The one endpoint for generation, a router as a rule; wired by paddock for the policy."""


class FrozenModel(ClientOptions):
    """A model served elsewhere, whose weights never change: a teacher."""

    base_url: str
    """Its endpoint; must be written, paddock starts no such server."""

    name: str
    """Model name sent with each request."""


class OrchestratorLoRA(Block):
    """The adapter as inference knows it; derived from `[trainer.model.lora]`."""

    name: str | None = None
    """Adapter name; unset = r<rank>-a<alpha>."""

    rank: Annotated[int, Field(ge=1, le=512)] | None = None
    """Rank; must equal the trainer's."""

    alpha: NonNegative | None = None
    """Scale; must equal the trainer's."""


class OrchestratorModel(Block):
    """`[orchestrator.model]`: the policy and where it is served."""

    name: str = "Qwen/Qwen3-0.6B"
    """Model name in requests; equals `inference.vllm.model`."""

    trust_remote_code: bool = False
    """Run code that the model's repository ships."""

    vlm: VLM | None = None
    """Vision-language training; normally filled from `[model.vlm]`."""

    lora: OrchestratorLoRA | None = None
    """Adapter of the run; filled when the trainer has one."""

    client: Client = Client()
    """Where and how the policy is reached."""
