"""The ClusterProfile of a Kubernetes cluster, from its stack's settings and what it has. Pure.

Everything that would leave runs pending for ever is a problem here, before a resource is declared:
a queue that is not there, a claim that is missing, no GPU. Called by the cluster stack.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from runtime import naming
from runtime.cluster import (
    ClusterProfile,
    FilesOffer,
    GpuOffer,
    KubernetesConnection,
    KubernetesOffer,
)
from runtime.cluster_settings import KubernetesClusterSettings
from runtime.errors import Problem, SettingsError
from runtime.kubernetes_discovery import Discovery, Wanted
from runtime.kubernetes_offers import NodeReport, NodeWishes, read_nodes

RUN_CLAIM = "paddock-runs"
"""Claim of the default run volume, where the stack makes it."""

MODELS_CLAIM = "paddock-models"
"""Claim of the model cache, where the stack makes it."""

RUNS_FOLDER = "runs"
"""Folder of the run volume that holds the run directories."""

FILES_SERVER = "files"
FILES_SELECTOR = {naming.LABEL_SERVER: FILES_SERVER}
FILES_PORT = 8089
FILES_SECRET = "paddock-files"  # noqa: S105 - the name of a Secret
FILES_TOKEN_KEY = "token"  # noqa: S105 - the key of its data
"""Pods and port of the file server, and the Secret with its token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptedCluster:
    """A cluster as a stack offers it: its profile, and what the nodes made it say."""

    profile: ClusterProfile
    remarks: tuple[str, ...]


def run_claim(settings: KubernetesClusterSettings) -> str:
    """Return the name of the default run volume's claim."""
    return settings.run_volume_claim or RUN_CLAIM


def models_claim(settings: KubernetesClusterSettings) -> str | None:
    """Return the name of the model cache's claim, None where there is no model cache."""
    made = MODELS_CLAIM if settings.models_volume_size else None
    return settings.models_volume_claim or made


def wanted(settings: KubernetesClusterSettings) -> Wanted:
    """Return the objects that `discover` must look for."""
    claims = (run_claim(settings), models_claim(settings), *settings.files_claims)
    return Wanted(
        claims=tuple(name for name in claims if name), priority_class=settings.priority_class
    )


def node_report(settings: KubernetesClusterSettings, found: Discovery) -> NodeReport:
    """Return what the nodes offer, and what the settings offer beyond them."""
    wishes = NodeWishes(
        prices=settings.prices_usd_per_hour,
        tolerations=settings.tolerations,
        gpu_types=settings.gpu_types,
        rdma_resource=settings.rdma_resource,
    )
    report = read_nodes(found.nodes or (), wishes)
    added: dict[str, GpuOffer] = {offer.name: offer for offer in settings.gpu_offers}
    offers = [offer for offer in report.offers if offer.name not in added]
    remarks = [one for one in report.remarks if one.partition(":")[0] not in added]
    return NodeReport(offers=(*offers, *added.values()), remarks=tuple(remarks))


def adopt_cluster(
    name: str, settings: KubernetesClusterSettings, found: Discovery
) -> AdoptedCluster:
    """Return the cluster that a stack of this name offers.

    Raises SettingsError with everything that keeps runs from ever starting.
    """
    report = node_report(settings, found)
    problems = list(_problems(name, settings, found, report))
    if problems:
        raise SettingsError(problems, source=f"stack {name}")
    run_volume = found.claims.get(run_claim(settings))
    is_shared = run_volume.is_shared if run_volume is not None else True
    profile = ClusterProfile(
        name=name,
        gpus=report.offers,
        connection=KubernetesConnection(context=settings.context, namespace=settings.namespace),
        runs_path=RUNS_FOLDER,
        models=settings.models,
        model_download=settings.model_download,
        environments=settings.environments,
        shared_storage=is_shared,
        max_gpus_per_run=settings.max_gpus_per_run,
        allow_unknown_fields=settings.allow_unknown_fields,
        model_express=settings.model_express,
        queue=settings.queue,
        kubernetes=_offer(settings, found, has_files=is_shared),
    )
    remarks = [*report.remarks, *found.unread]
    if not is_shared:
        remarks.append(
            f"claim {run_claim(settings)} is not ReadWriteMany: no file server, and no multi_node"
        )
    return AdoptedCluster(profile=profile, remarks=tuple(remarks))


def _offer(
    settings: KubernetesClusterSettings, found: Discovery, *, has_files: bool
) -> KubernetesOffer:
    files = FilesOffer(
        selector=FILES_SELECTOR,
        port=FILES_PORT,
        secret=FILES_SECRET,
        image=settings.tools_image,
        claims=settings.files_claims,
    )
    return KubernetesOffer(
        image_repository=settings.image,
        image_pull_secrets=settings.image_pull_secrets,
        run_claim=run_claim(settings),
        models_claim=models_claim(settings),
        storage_class=settings.storage_class,
        models_read_only=settings.models_read_only,
        tolerations=settings.tolerations,
        priority_class=settings.priority_class,
        jobset=found.jobset,
        queue_api=found.queue_api,
        gang_api=found.gang_api,
        node_class=settings.node_class,
        exclusive_label=settings.exclusive_label,
        files=files if has_files else None,
        num_processes_per_node=settings.processes_per_node,
    )


def _problems(
    stack: str, settings: KubernetesClusterSettings, found: Discovery, report: NodeReport
) -> Iterator[Problem]:
    if found.namespace_phase == "Terminating":
        yield _problem(
            "namespace",
            f"namespace {settings.namespace} is being deleted",
            f"kubectl get namespace {settings.namespace} -o yaml shows what holds it, or choose "
            "another one",
        )
    if found.owner not in {None, naming.slug(stack)}:
        yield _problem(
            "namespace",
            f"namespace {settings.namespace} is that of cluster stack {found.owner}",
            "a namespace is one cluster stack's: choose another one, or destroy that stack first",
        )
    yield from _gpu_problems(settings, found, report)
    yield from _claim_problems(settings, found)
    yield from _queue_problems(settings, found)
    name = settings.priority_class
    if name and found.has_priority_class is False and settings.priority_value is None:
        yield _problem(
            "priorityClass",
            f"there is no PriorityClass {name}",
            "paddock:priorityValue makes it",
        )
    if settings.priority_value is not None and name is None:
        yield _problem("priorityValue", "needs paddock:priorityClass, the name of the class")
    if settings.node_class is not None and not found.has_karpenter:
        yield _problem("nodeClass", "the cluster does not serve karpenter.sh/v1 NodePools")


def _gpu_problems(
    settings: KubernetesClusterSettings, found: Discovery, report: NodeReport
) -> Iterator[Problem]:
    if report.offers:
        return
    if found.nodes is None:
        message = "nodes may not be listed, so no GPU type is known"
        fix = "a role that lists nodes, or paddock:gpuOffers"
    else:
        seen = "; ".join(report.remarks) or f"{len(found.nodes)} nodes, none with GPUs"
        message = f"the cluster offers no GPU to runs: {seen}"
        fix = "check the GPU operator, or give paddock:gpuOffers"
    yield Problem(message=message, fix=fix, code="no_gpus")


def _claim_problems(settings: KubernetesClusterSettings, found: Discovery) -> Iterator[Problem]:
    adopted = (
        ("runVolumeClaim", settings.run_volume_claim),
        ("modelsVolumeClaim", settings.models_volume_claim),
        *(("filesClaims", name) for name in settings.files_claims),
    )
    for key, name in adopted:
        # where something may not be read, the claim's own resource is what refuses
        if name is not None and name not in found.claims and not found.unread:
            yield _problem(key, f"namespace {settings.namespace} has no claim {name}")
    for key, name in (("runVolumeSize", run_claim(settings)), *adopted):
        claim = found.claims.get(name) if name else None
        if claim is not None and claim.is_leaving:
            yield _problem(key, f"claim {name} is being deleted", "wait until it is gone")
    classes = found.storage_classes
    name = settings.storage_class
    if name and classes is not None and all(one.name != name for one in classes):
        known = ", ".join(one.name for one in classes) or "none"
        yield _problem("storageClass", f"there is no StorageClass {name}; there is: {known}")


def _queue_problems(settings: KubernetesClusterSettings, found: Discovery) -> Iterator[Problem]:
    if settings.cluster_queue is not None and settings.queue is None:
        yield _problem("clusterQueue", "needs paddock:queue, the LocalQueue to make for it")
    if settings.own_cluster_queue and settings.cluster_queue is None:
        yield _problem("ownClusterQueue", "needs paddock:clusterQueue, the name of the queue")
    if settings.queue is None:
        return
    if found.queue_api is None:
        yield _problem("queue", "the cluster does not serve Kueue", "install Kueue, or unset it")
    elif (
        settings.cluster_queue is None
        and found.queues is not None
        and settings.queue not in found.queues
    ):
        known = ", ".join(found.queues) or "none"
        yield _problem(
            "queue",
            f"namespace {settings.namespace} has no LocalQueue {settings.queue}; there is: {known}",
            "paddock:clusterQueue makes it",
        )


def _problem(key: str, message: str, fix: str = "") -> Problem:
    return Problem(loc=(f"paddock:{key}",), message=message, fix=fix, code="settings")
