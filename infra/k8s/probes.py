"""Probes of a run's pods. Pure.

Only inference and a trainer with a metrics server answer HTTP; no other component has an endpoint.
A pod that fails a probe is killed and not restarted, so each bound is wider than what a healthy
component may take.
"""

from infra.k8s.job_groups import JobGroup
from infra.k8s.placed import Manifest
from runtime import naming
from runtime.launch.components import HTTP, METRICS

START_PERIOD_S = 10
STARTUP_S = 45 * 60
"""An engine loads a model of hundreds of GiB and compiles it. Source: prime-rl's helm chart."""

LIVENESS_PERIOD_S = 60
LIVENESS_TIMEOUT_S = 35
"""/liveness is a round trip to the workers, which the engine itself gives 30 s."""

LIVENESS_FAILURES = 15
"""A quarter of an hour: while weights arrive the workers answer nothing, and the orchestrator
gives one update 720 s. Source: prime-rl 559b447."""


def probes(group: JobGroup) -> Manifest:
    """Return the startup and liveness probes of a group's main container; empty for most roles."""
    port = _port(group)
    if port is None:
        return {}
    alive = "/liveness" if group.role == naming.INFERENCE else "/health"
    return {
        "startupProbe": {
            "httpGet": {"path": "/health", "port": port},
            "periodSeconds": START_PERIOD_S,
            "timeoutSeconds": START_PERIOD_S,
            "failureThreshold": STARTUP_S // START_PERIOD_S,
        },
        "livenessProbe": {
            "httpGet": {"path": alive, "port": port},
            "periodSeconds": LIVENESS_PERIOD_S,
            "timeoutSeconds": LIVENESS_TIMEOUT_S,
            "failureThreshold": LIVENESS_FAILURES,
        },
    }


def _port(group: JobGroup) -> int | None:
    """Return the port that is asked: the first engine's, or the trainer's metrics server."""
    wanted = {naming.INFERENCE: f"{HTTP}-0", naming.TRAINER: METRICS}.get(group.role)
    return next((port.number for port in group.first.ports if port.name == wanted), None)
