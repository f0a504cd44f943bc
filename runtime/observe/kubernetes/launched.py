"""LaunchedRun: what an attempt was launched with, read from its ConfigMap: pods and their logs.

The plan's part that observers need. It is asked for once an attempt, since a ConfigMap of a run
never changes; without it (a stack that is destroyed) pods are called by their keys. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runtime import naming, pod_layout


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchedPod:
    """One pod of an attempt: its component, and the log's path below the attempt's log folder."""

    key: str
    component: str
    role: str = ""
    log: str = ""
    source: str = ""
    split: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchedRun:
    """The pods of one attempt in the order of starting, and what ends it."""

    run_id: str
    attempt: int
    pods: tuple[LaunchedPod, ...] = ()
    max_steps: int | None = None

    def pod(self, key: str) -> LaunchedPod:
        """Return the pod of a key; one that is not known is called by its key."""
        found = next((one for one in self.pods if one.key == key), None)
        return found or LaunchedPod(key=key, component=key, role=_role_of(key))

    def component(self, name: str) -> LaunchedPod | None:
        """Return the pod of a component, None where there is none."""
        return next((one for one in self.pods if one.component == name), None)


def launched_run(config_map: Mapping[str, Any]) -> LaunchedRun | None:
    """Return what a run's ConfigMap says, None where it is no such ConfigMap or damaged."""
    text = (config_map.get("data") or {}).get(pod_layout.LAUNCH_FILE)
    try:
        found = json.loads(text or "")
        pods = found["pods"].items()
        return LaunchedRun(
            run_id=str(found["run_id"]),
            attempt=int(found["attempt"]),
            pods=tuple(_pod(key, one) for key, one in pods),
            max_steps=found.get("max_steps"),
        )
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def _pod(key: str, found: Mapping[str, Any]) -> LaunchedPod:
    return LaunchedPod(
        key=key,
        component=str(found["component"]),
        role=str(found.get("role") or ""),
        log=str(found.get("log") or ""),
        source=str(found.get("source") or ""),
        split=str(found.get("split") or ""),
    )


def _role_of(key: str) -> str:
    group = key.rsplit("-", 2)[0]
    if group.startswith(f"{naming.ENV_SERVER}-"):
        return naming.ENV_SERVER
    return naming.INFERENCE if group in {"prefill", "decode"} else group
