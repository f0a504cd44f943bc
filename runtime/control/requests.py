"""What the HTTP API asks for, as frozen values: a run, a list, log lines, a volume.

Made from the wire models of `runtime.control.wire`, taken by `runtime.control.services`. Nothing
here knows HTTP.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateRun:
    """A run as a client asks for it; nothing of it is judged yet but its secrets' names and sizes.

    `secrets` are values: they go to the stack through stdin and nowhere else.
    """

    config_text: str
    name: str | None = None
    team_id: str | None = None
    image_tag: str | None = None
    gpu_type: str | None = None
    volume: str | None = None
    resume_from: str | None = None
    environments: tuple[str, ...] = ()
    max_spend_microusd: int | None = None
    """What the run may cost; it is stopped after a last checkpoint. None = what the wallet has."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        """Return what tells requests under one idempotency key apart, no value of a secret."""
        told = [
            self.config_text,
            self.name,
            self.team_id,
            self.image_tag,
            self.gpu_type,
            self.volume,
            self.resume_from,
            self.environments,
            self.max_spend_microusd,
            sorted(self.secrets),
        ]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class ResumeRun:
    """What a new attempt changes; None = as before."""

    image_tag: str | None = None
    gpu_type: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class LogQuery:
    """Which lines of which component; `index` is a rank, replica or env server of one name."""

    component: str = "orchestrator"
    index: int | None = None
    env_name: str | None = None
    num_lines: int = 1000
    search: str | None = None
    is_regex: bool = False
    level: str | None = None
    since_s: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRange:
    """Steps from `first` to `last`, at most `limit` of them, the last ones; None = no bound."""

    first: int | None = None
    last: int | None = None
    limit: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateVolume:
    """A volume as a client asks for it; no cluster = the server picks."""

    name: str
    size: str
    cluster: str | None = None
    team_id: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackNote:
    """What a user wants the operators to read."""

    message: str
    category: str
    run_id: str | None = None
