"""Dispatch and resume, as requests of the API."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.client.answers import Dispatched, read
from runtime.client.api import DISPATCH_S, Api, Ask, path_of

_RUNS = "/training/runs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """A run to dispatch; None and empty are left out of the request."""

    config_text: str
    source: str
    """The file's name, for messages."""
    image_tag: str | None = None
    gpu_type: str | None = None
    volume: str | None = None
    resume_from: str | None = None
    environments: tuple[str, ...] = ()
    max_spend_microusd: int | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def body(self) -> dict[str, object]:
        """Return the request's body, secrets included."""
        return _given({**self._told(), "env": dict(self.env)})

    def digest(self, url: str) -> str:
        """Return what tells dispatches apart: all but the values of secrets."""
        told = [url, self._told(), sorted(self.env)]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]

    def _told(self) -> dict[str, object]:
        return {
            "configText": self.config_text,
            "imageTag": self.image_tag,
            "gpuType": self.gpu_type,
            "volume": self.volume,
            "resumeFrom": self.resume_from,
            "environments": list(self.environments),
            "maxSpendMicrousd": self.max_spend_microusd,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Resume:
    """What the next attempt of a run changes; None = as before."""

    image_tag: str | None = None
    gpu_type: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def dispatch(api: Api, wanted: Dispatch, key: str) -> Dispatched:
    """Dispatch a run; the same Idempotency-Key makes no second one."""
    ask = Ask(
        method="POST",
        path=_RUNS,
        body=wanted.body(),
        idempotency_key=key,
        read_s=DISPATCH_S,
        source=wanted.source,
    )
    return read(Dispatched, api.ask(ask))


def resume(api: Api, run_id: str, wanted: Resume) -> Dispatched:
    """Go on from a run's last checkpoint."""
    fields = {"imageTag": wanted.image_tag, "gpuType": wanted.gpu_type, "env": dict(wanted.env)}
    ask = Ask(
        method="POST",
        path=_RUNS + path_of(run_id, "resume"),
        body=_given(fields),
        read_s=DISPATCH_S,
        source=run_id,
    )
    return read(Dispatched, api.ask(ask))


def _given(body: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if value not in (None, [], {})}
