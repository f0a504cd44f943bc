"""The end of what a run owns on Kubernetes: workloads first, pods gone, then the rest, by label.

Works from a run id alone, needs no stack and no state, and is idempotent. It never touches the
namespace, a claim or the record, and never strips a finalizer: what stays is named. Called by
`runtime.kubernetes_run` and by `paddock stop`.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from runtime import naming
from runtime.errors import PaddockError
from runtime.kubernetes_api import (
    KINDS,
    ForbiddenError,
    KubernetesApi,
    KubernetesError,
    Manifest,
)
from runtime.kubernetes_kinds import Labels, kind_of, versions_of
from runtime.pod_names import LABEL_NAMESPACE

WORKLOADS = ("JobSet", "Job", "Pod")
"""Kinds in the order of their deletion: nobody is left to make a deleted one again."""

REST = ("PodGroup", "NodePool", "Service", "ConfigMap", "Secret")

SLACK_S = 60.0
"""Beyond the grace period of the pods, for controllers and kubelet to do their part."""

_NODES_S = 600.0
"""A cloud's machine takes minutes to go; the node pool stays until it has."""

_DEAD_NODE_S = 10.0
"""For a node that was declared dead to come back, before a pod of it is given up."""

_PAUSES_S = (0.2, 0.5, 1.0)


class TeardownStuckError(PaddockError):
    """Something of the run does not go; the message names each object and what holds it."""

    code = "teardown_stuck"


@dataclass(frozen=True, kw_only=True, slots=True)
class Owned:
    """What is looked for: objects of a run, up to an attempt where there is one.

    `made` are the kinds that the run is known to have made: the caller must be let see them. A kind
    that the API serves in no version is gone with its objects. With a `control_plane` only what
    carries its id is looked for.
    """

    run_id: str
    up_to_attempt: int | None = None
    control_plane: str | None = None
    made: frozenset[str] = frozenset()
    slack_s: float = SLACK_S

    def find(self, api: KubernetesApi, kinds: Iterable[str]) -> list[Manifest]:
        """Return the objects of these kinds that are there, in the order of the kinds."""
        selector = {naming.LABEL_RUN: self.run_id, naming.LABEL_MANAGED_BY: naming.PROJECT}
        if self.control_plane is not None:
            selector[naming.LABEL_CONTROL_PLANE] = self.control_plane
        found = []
        for kind in kinds:
            try:
                listed = list_served(api, kind, labels={**selector, **_scope(api, kind)})
                found += [one for one in listed if self._includes(one)]
            except ForbiddenError:
                if kind in self.made:
                    raise
        return found

    def _includes(self, manifest: Manifest) -> bool:
        if self.up_to_attempt is None:
            return True
        attempt = manifest["metadata"]["labels"].get(naming.LABEL_ATTEMPT, "")
        return attempt.isdigit() and int(attempt) <= self.up_to_attempt


def list_served(api: KubernetesApi, kind: str, *, labels: Labels) -> list[Manifest]:
    """Return the objects of a kind in the first version that the cluster serves; else none."""
    for one in versions_of(kind):
        try:
            return api.list(one, labels=labels)
        except KubernetesError as error:
            if error.status != 404:
                raise
    return []


def _scope(api: KubernetesApi, kind: str) -> dict[str, str]:
    """Return the label by which a cluster-scoped object says which namespace's run it is of."""
    return {} if KINDS[kind].is_namespaced else {LABEL_NAMESPACE: api.namespace}


def end_workloads(api: KubernetesApi, owned: Owned) -> None:
    """Delete the run's Jobs and pods and return once a read has shown that none is left.

    Raises TeardownStuckError naming what does not go in the time that its pods may take.
    """
    pods = owned.find(api, ("Pod",))
    graces = [
        pod["spec"].get("terminationGracePeriodSeconds") or 0
        for pod in pods
        if pod["spec"].get("nodeName")  # one that was never placed goes at once
    ]
    limit_s = max([0, *graces]) + owned.slack_s
    _remove(api, owned, WORKLOADS, limit_s=limit_s)
    if pods:  # a controller that was a moment behind may have made one more
        time.sleep(_PAUSES_S[0])
        _remove(api, owned, WORKLOADS, limit_s=limit_s)


def remove_rest(api: KubernetesApi, owned: Owned) -> None:
    """Delete what is left of a run whose pods are gone; raises TeardownStuckError likewise."""
    has_nodes = bool(owned.find(api, ("NodePool",)))
    _remove(api, owned, REST, limit_s=_NODES_S if has_nodes else owned.slack_s)


@dataclass(kw_only=True, slots=True)
class _Removal:
    """One wait for objects to go; `seen` is when each pod was first seen to be on its way out."""

    api: KubernetesApi
    seen: dict[str, float] = field(default_factory=dict)

    def ask(self, manifest: Manifest) -> None:
        """Ask for an object's deletion, or give up a pod whose node cannot confirm its end."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        if "deletionTimestamp" not in metadata:
            # a node pool stays until its nodes have gone; Jobs go at once and their pods by name
            how = "Foreground" if kind == "NodePool" else "Background"
            which, name = kind_of(manifest), metadata["name"]
            self.api.delete(which, name, uid=metadata["uid"], propagation=how)
        elif kind == "Pod" and self._is_lost(manifest):
            self.api.force_delete_pod(metadata["name"], uid=metadata["uid"])

    def _is_lost(self, pod: Manifest) -> bool:
        """Tell whether a pod is to go from a node that is dead: kubelet will never say so."""
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        since = self.seen.setdefault(metadata["uid"], time.monotonic())
        if node is None or time.monotonic() - since < _DEAD_NODE_S:
            return False
        return is_dead(self.api, node)


def is_dead(api: KubernetesApi, node: str) -> bool:
    """Tell whether a node is gone or not ready; False where the caller may not see nodes."""
    try:
        found = api.get("Node", node)
    except ForbiddenError:
        return False
    if found is None:
        return True
    conditions = (found.get("status") or {}).get("conditions") or []
    return not any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _remove(api: KubernetesApi, owned: Owned, kinds: tuple[str, ...], *, limit_s: float) -> None:
    removal = _Removal(api=api)
    deadline = time.monotonic() + limit_s
    pauses = iter(_PAUSES_S)
    while left := owned.find(api, kinds):
        for manifest in left:
            removal.ask(manifest)
        if time.monotonic() > deadline:
            raise TeardownStuckError(stuck_message(api, owned.run_id, left))
        time.sleep(next(pauses, _PAUSES_S[-1]))


def stuck_message(api: KubernetesApi, run_id: str, left: Iterable[Manifest]) -> str:
    """Return what does not go, what holds each, and what to do."""
    named = "; ".join(_holder(api, one) for one in left)
    return (
        f"{run_id}: these objects do not go: {named}. paddock strips no finalizer: end what holds "
        f"them, then destroy the run again"
    )


def _holder(api: KubernetesApi, manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    name = f"{manifest['kind']} {metadata['name']}"
    finalizers = ", ".join(metadata.get("finalizers") or [])
    node = (manifest.get("spec") or {}).get("nodeName") if manifest["kind"] == "Pod" else None
    where = f" on node {node}{', which is not ready' if is_dead(api, node) else ''}" if node else ""
    if finalizers:
        return f"{name}{where} (finalizers: {finalizers})"
    if node and _is_created(manifest):
        return f"{name}{where} (it has not started: kubelet lets a pull of its image end first)"
    return f"{name}{where} (no finalizer: its node or its controller has not confirmed the end)"


def _is_created(pod: Manifest) -> bool:
    """Tell whether kubelet is still at making a pod's first containers, a pull of its image say."""
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    waiting = [((one.get("state") or {}).get("waiting") or {}).get("reason") for one in containers]
    return bool(waiting) and set(waiting) <= {"ContainerCreating", "PodInitializing"}
