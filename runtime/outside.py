"""What a run needs that is not its own: endpoints served elsewhere, packages, and what is unplaced.

Pure, over a resolved config. The plan carries the values, admission judges them.
"""

import ipaddress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from runtime.config import RLConfig
from runtime.config.inference import VllmRouter
from runtime.config.schema_walk import Loc
from runtime.config.tables import frozen_models, urls
from runtime.config.transport import SharedNIXLBroadcast
from runtime.errors import Problem

BUILT_IN_ENVIRONMENTS = frozenset(
    {
        "agentic_judge",
        "best_of_n",
        "isolated_verifier",
        "shared_agentic_judge",
        "single_agent",
        "user_sim",
    }
)
"""Environments that verifiers itself carries, in every image. Source: verifiers 0.4.0."""

Unplaced = Literal["llm-d", "nixl", "pipeline_parallel"]
_POLICY: Loc = ("orchestrator", "model", "client")


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A server that the run calls and does not start: where the config names it, and its model."""

    loc: tuple[str | int, ...]
    url: str
    model: str = ""

    @property
    def path(self) -> str:
        """Return the dotted path of the key that names it."""
        return Problem(loc=self.loc, message="").path

    @property
    def is_loopback(self) -> bool:
        """Tell whether the address means the caller's own machine, which in a pod is nobody."""
        return is_loopback(self.url)


def is_loopback(url: str) -> bool:
    """Tell whether an address (URL, host:port or host) is the caller's own machine."""
    try:
        host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def endpoints(config: RLConfig) -> tuple[Endpoint, ...]:
    """Return every server outside the run: policy, teachers, judges, agents' models, env servers.

    A server that several places name is told once, at the first of them.
    """
    serves_policy = config.inference is not None or config.trainer.data.fake is not None
    named: dict[Loc, str] = {(*loc, "base_url"): model.name for loc, model in frozen_models(config)}
    found: dict[tuple[str, str], Endpoint] = {}
    for loc, url in urls(config):
        if "heartbeat" in loc or (serves_policy and loc[:3] == _POLICY):
            continue
        model = named.get(loc, "")
        found.setdefault((url, model), Endpoint(loc=loc, url=url, model=model))
    return tuple(found.values())


def tasksets(config: RLConfig) -> tuple[str, ...]:
    """Return the ids of the tasksets that sources draw from, each once."""
    ids = (source.taskset_id for _, source in config.orchestrator.sources)
    return tuple(dict.fromkeys(name for name in ids if name))


def environments(config: RLConfig) -> tuple[str, ...]:
    """Return the ids of the packages that sources need: tasksets, and environments of their own.

    The package of an external env server is needed too: the orchestrator loads its rows.
    """
    own = (source.env.id for _, source in config.orchestrator.sources)
    names = [name for name in own if name.replace("-", "_") not in BUILT_IN_ENVIRONMENTS]
    return tuple(dict.fromkeys(name for name in (*tasksets(config), *names) if name))


def router_policy(config: RLConfig) -> str:
    """Return the policy of vLLM's router, also where the file has no router; "" for llm-d."""
    router = config.inference.router if config.inference is not None else None
    if router is None:
        return VllmRouter().policy
    return router.policy if isinstance(router, VllmRouter) else ""


def unplaced(config: RLConfig) -> tuple[Unplaced, ...]:
    """Return what the config asks for and paddock cannot place, by name."""
    found: list[Unplaced] = []
    inference = config.inference
    if inference is not None:
        if inference.router is not None and inference.router.type == "llm-d":
            found.append("llm-d")
        size = (inference.vllm.model_extra or {}).get("pipeline_parallel_size", 1)
        if size not in (1, "1", None):
            found.append("pipeline_parallel")
    broadcast = config.weight_broadcast
    if isinstance(broadcast, SharedNIXLBroadcast) and is_loopback(broadcast.host):
        found.append("nixl")
    return tuple(found)
