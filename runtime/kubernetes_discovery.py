"""Looks a Kubernetes cluster over: nodes, storage, add-ons, claims, permissions. Reads only.

`discover` asks, and every answer that a caller's credentials do not allow is a sentence instead of
a failure; what the answers mean together is decided by `runtime.kubernetes_profile` and
`runtime.kubernetes_checks`. Called by the cluster stack and by `paddock doctor`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from runtime import naming
from runtime.kubernetes_api import ForbiddenError, KubernetesApi, Manifest
from runtime.kubernetes_kinds import GANG_VERSIONS, KINDS, KUEUE_VERSIONS
from runtime.kubernetes_permissions import Access

OPERATOR = "paddock-operator"
"""ServiceAccount and Role of who starts, watches and ends runs: CI, or a control plane."""

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageClassFact:
    """A StorageClass: whether it is the default, and whether it waits for the first consumer."""

    name: str
    is_default: bool
    is_late: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimFact:
    """A PersistentVolumeClaim; `is_shared`: several nodes may mount it for writing."""

    name: str
    phase: str
    is_shared: bool
    is_leaving: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which objects of the cluster the settings name."""

    claims: tuple[str, ...] = ()
    priority_class: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Discovery:
    """What a cluster has. None stands for what the caller may not read; `unread` says what."""

    version: str
    namespace_phase: str | None
    nodes: tuple[Manifest, ...] | None
    storage_classes: tuple[StorageClassFact, ...] | None
    claims: dict[str, ClaimFact]
    queue_api: str | None
    queues: tuple[str, ...] | None
    jobset: bool
    gang_api: str | None
    has_karpenter: bool
    has_priority_class: bool | None
    unread: tuple[str, ...]
    owner: str | None = None
    """Cluster stack whose operator account the namespace has, as a label spells it."""


def discover(api: KubernetesApi, wanted: Wanted) -> Discovery:
    """Return what the cluster has; raises UnreachableError where it does not answer."""
    unread: list[str] = []

    def ask(read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except ForbiddenError as error:
            unread.append(str(error))
            return None

    version = api.server_version()
    namespace = ask(lambda: _phase(api))
    queue_api = _first_served(api, KUEUE_VERSIONS, "LocalQueue")
    claims = {}
    for name in wanted.claims if namespace is None or namespace else ():
        claim = ask(lambda name=name: api.get("PersistentVolumeClaim", name))
        if claim is not None:
            claims[name] = claim_fact(claim)
    return Discovery(
        version=version,
        namespace_phase=namespace,
        nodes=_tuple(ask(lambda: api.list("Node"))),
        storage_classes=_tuple(
            ask(lambda: [storage_class_fact(one) for one in api.list("StorageClass")])
        ),
        claims=claims,
        queue_api=queue_api,
        queues=_queues(api, queue_api, ask) if queue_api else (),
        jobset=api.serves(KINDS["JobSet"].version, "JobSet"),
        gang_api=_first_served(api, GANG_VERSIONS, "PodGroup"),
        has_karpenter=api.serves(KINDS["NodePool"].version, "NodePool"),
        has_priority_class=ask(lambda: _has_priority_class(api, wanted.priority_class)),
        unread=tuple(unread),
        owner=_owner(api) if namespace else None,
    )


def is_allowed(api: KubernetesApi, access: Access) -> bool:
    """Ask the API whether the caller may do something; no answer counts as no."""
    try:
        answer = api.create("SelfSubjectAccessReview", access.review())
    except ForbiddenError:
        return False
    return bool((answer.get("status") or {}).get("allowed"))


def storage_class_fact(manifest: Manifest) -> StorageClassFact:
    """Return the fact of a StorageClass object."""
    metadata = manifest.get("metadata") or {}
    mark = (metadata.get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class")
    return StorageClassFact(
        name=str(metadata.get("name", "")),
        is_default=mark == "true",
        is_late=manifest.get("volumeBindingMode") == "WaitForFirstConsumer",
    )


def claim_fact(manifest: Manifest) -> ClaimFact:
    """Return the fact of a PersistentVolumeClaim object."""
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    return ClaimFact(
        name=str(metadata.get("name", "")),
        phase=str((manifest.get("status") or {}).get("phase", "")),
        is_shared="ReadWriteMany" in (spec.get("accessModes") or ()),
        is_leaving="deletionTimestamp" in metadata,
    )


def _phase(api: KubernetesApi) -> str:
    """Return the namespace's phase (Active, Terminating), empty where there is none."""
    found = api.get("Namespace", api.namespace)
    if found is None:
        return ""
    return str((found.get("status") or {}).get("phase") or "Active")


def _owner(api: KubernetesApi) -> str | None:
    try:
        account = api.get("ServiceAccount", OPERATOR)
    except ForbiddenError:  # only a better message is lost: the engine refuses to take it over
        return None
    labels = account["metadata"].get("labels") if account is not None else None
    return (labels or {}).get(naming.LABEL_CLUSTER)


def _first_served(api: KubernetesApi, versions: tuple[str, ...], kind: str) -> str | None:
    return next((version for version in versions if api.serves(version, kind)), None)


def _queues(
    api: KubernetesApi,
    version: str,
    ask: Callable[[Callable[[], list[Manifest]]], list[Manifest] | None],
) -> tuple[str, ...] | None:
    found = ask(lambda: api.list(KINDS["LocalQueue"].at(version)))
    if found is None:
        return None
    return tuple(sorted(str(one["metadata"]["name"]) for one in found))


def _has_priority_class(api: KubernetesApi, name: str | None) -> bool:
    return name is None or api.get("PriorityClass", name) is not None


def _tuple(found: list[_T] | None) -> tuple[_T, ...] | None:
    return None if found is None else tuple(found)
