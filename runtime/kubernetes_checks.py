"""What `paddock doctor` says of a Kubernetes cluster: checks, each with how to mend it. Pure.

Takes what `runtime.kubernetes_discovery` and its own probes found; nothing is asked here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from runtime.cluster_settings import KubernetesClusterSettings
from runtime.errors import SettingsError
from runtime.kubernetes_discovery import Discovery
from runtime.kubernetes_profile import adopt_cluster, models_claim, node_report, run_claim

MIN_VERSION = (1, 28)
"""Oldest server: pods of Indexed Jobs carry their index as a label, and podFailurePolicy is on."""


class Verdict(StrEnum):
    """What a check found: `missing` fails a required check, `absent` is an option not taken."""

    OK = "ok"
    WARNING = "warning"
    ABSENT = "absent"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check; `mend` says what to do about it, empty where it is well."""

    name: str
    verdict: Verdict
    detail: str
    mend: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probes:
    """What was asked beyond discovery; `missing_access` in words, by what it is needed for."""

    stack: str
    missing_access: dict[str, tuple[str, ...]]
    files: str | None
    num_models: int | None
    image_notice: str
    has_plugin: bool
    models_trouble: str = ""
    """Why the list of the model cache is none."""


def is_fit(checks: tuple[Check, ...]) -> bool:
    """Tell whether nothing that is required is missing."""
    return all(check.verdict is not Verdict.MISSING for check in checks)


def cluster_checks(
    settings: KubernetesClusterSettings, found: Discovery, probes: Probes
) -> tuple[Check, ...]:
    """Return the checks of a cluster that answers."""
    return (
        _ok("reachable", f"context {settings.context}"),
        _version(found.version),
        _namespace(settings, found, probes),
        *_access(probes),
        *_settings(settings, found, probes),
        *_gpus(settings, found),
        *_storage(settings, found, probes),
        _files(settings, found, probes),
        *_add_ons(settings, found),
        _image(settings, probes),
        _plugin(probes),
    )


def unreachable_check(settings: KubernetesClusterSettings, why: str) -> Check:
    """Return the one check of a cluster that does not answer."""
    return Check(
        name="reachable",
        verdict=Verdict.MISSING,
        detail=why,
        mend=f"kubectl --context {settings.context} get --raw /readyz shows more",
    )


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, verdict=Verdict.OK, detail=detail)


def _version(version: str) -> Check:
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if match is None or (int(match.group(1)), int(match.group(2))) < MIN_VERSION:
        needed = ".".join(str(part) for part in MIN_VERSION)
        return Check(
            name="version",
            verdict=Verdict.MISSING,
            detail=f"Kubernetes {version}",
            mend=f"{needed} or newer is needed",
        )
    return _ok("version", f"Kubernetes {version}")


def _namespace(settings: KubernetesClusterSettings, found: Discovery, probes: Probes) -> Check:
    name, phase = settings.namespace, found.namespace_phase
    if phase == "":
        return Check(
            name="namespace",
            verdict=Verdict.WARNING,
            detail=f"{name} is not there yet",
            mend=f"pulumi up -s {probes.stack} makes it",
        )
    if phase == "Terminating":
        return Check(
            name="namespace",
            verdict=Verdict.MISSING,
            detail=f"{name} is being deleted",
            mend=f"kubectl get namespace {name} -o yaml shows what holds it, or set "
            "paddock:namespace",
        )
    return _ok("namespace", name if phase else f"{name} (not to be read by you)")


def _access(probes: Probes) -> Iterator[Check]:
    for use, missing in probes.missing_access.items():
        if not missing:
            yield _ok(f"access: {use}", "all that is needed")
            continue
        more = f" and {len(missing) - 6} more" if len(missing) > 6 else ""
        is_required = use == "runs"
        yield Check(
            name=f"access: {use}",
            verdict=Verdict.MISSING if is_required else Verdict.WARNING,
            detail=f"not allowed: {', '.join(missing[:6])}{more}",
            mend="ask an administrator for a RoleBinding to the Role paddock-operator"
            if is_required
            else f"an administrator runs `pulumi up -s {probes.stack}`",
        )


def _settings(
    settings: KubernetesClusterSettings, found: Discovery, probes: Probes
) -> Iterator[Check]:
    """Yield what the cluster stack itself would refuse."""
    try:
        adopt_cluster(probes.stack, settings, found)
    except SettingsError as error:
        for problem in error.problems:
            yield Check(
                name=problem.path or problem.code,
                verdict=Verdict.MISSING,
                detail=problem.message,
                mend=problem.fix or f"pulumi config set {problem.path} VALUE -s {probes.stack}",
            )
        return
    yield _ok("settings", f"stack {probes.stack} fits the cluster")


def _gpus(settings: KubernetesClusterSettings, found: Discovery) -> Iterator[Check]:
    report = node_report(settings, found)
    for offer in report.offers:
        nodes = f"{offer.num_nodes} nodes of {offer.gpus_per_node}"
        yield _ok(f"GPUs: {offer.name}", f"{offer.num_gpus} ({nodes})")
        if offer.rdma_resource is not None:
            yield _ok(f"RDMA: {offer.name}", f"{offer.rdma_resource} x {offer.rdma_per_node}")
        elif offer.num_nodes > 1:
            yield Check(
                name=f"RDMA: {offer.name}",
                verdict=Verdict.WARNING,
                detail="no RDMA resource: multi_node runs talk over TCP, many times slower",
                mend="install the RDMA or EFA device plugin, or name its resource in "
                "paddock:rdmaResource",
            )
    for remark in report.remarks:
        yield Check(name="nodes", verdict=Verdict.WARNING, detail=remark)


def _storage(
    settings: KubernetesClusterSettings, found: Discovery, probes: Probes
) -> Iterator[Check]:
    name = run_claim(settings)
    claim = found.claims.get(name)
    if claim is None:
        yield _unmade("run volume", settings, found, probes)
    elif not claim.is_shared:
        yield Check(
            name="run volume",
            verdict=Verdict.WARNING,
            detail=f"claim {name} is not ReadWriteMany: no multi_node runs, no file server",
            mend="adopt a ReadWriteMany claim (paddock:runVolumeClaim)",
        )
    else:
        yield _ok("run volume", f"claim {name}, {claim.phase or 'Pending'}, ReadWriteMany")
    cache = models_claim(settings)
    if cache is None:
        yield Check(
            name="model cache",
            verdict=Verdict.WARNING,
            detail="none: every run downloads its model and compiles its kernels anew",
            mend=f"pulumi config set paddock:modelsVolumeSize 500Gi -s {probes.stack}",
        )
    elif cache not in found.claims:
        yield _unmade("model cache", settings, found, probes)
    elif probes.models_trouble:
        yield Check(
            name="model cache",
            verdict=Verdict.WARNING,
            detail=f"claim {cache}, its list is broken",
            mend=probes.models_trouble,
        )
    else:
        count = "models not to be read by you"
        if probes.num_models is not None:
            count = f"{probes.num_models + len(settings.models)} models"
        yield _ok("model cache", f"claim {cache}, {count}")


def _unmade(
    name: str, settings: KubernetesClusterSettings, found: Discovery, probes: Probes
) -> Check:
    """Return the check of a claim that the stack will make, which needs a class to come from."""
    classes = found.storage_classes
    has_class = (
        settings.storage_class is not None
        or classes is None
        or any(one.is_default for one in classes)
    )
    if has_class:
        return Check(
            name=name,
            verdict=Verdict.WARNING,
            detail="the claim is not there yet",
            mend=f"pulumi up -s {probes.stack} makes it",
        )
    known = ", ".join(one.name for one in classes or ()) or "none"
    return Check(
        name=name,
        verdict=Verdict.MISSING,
        detail=f"no default StorageClass to make the claim from; there is: {known}",
        mend="set paddock:storageClass to one that gives ReadWriteMany volumes",
    )


def _files(settings: KubernetesClusterSettings, found: Discovery, probes: Probes) -> Check:
    claim = found.claims.get(run_claim(settings))
    if claim is not None and not claim.is_shared:
        return Check(
            name="file server", verdict=Verdict.ABSENT, detail="none without a shared run volume"
        )
    if probes.files is None:
        return _ok("file server", "answers")
    return Check(
        name="file server",
        verdict=Verdict.WARNING,
        detail=f"{probes.files}: logs come from pods only, and end with them",
        mend=f"pulumi up -s {probes.stack}; kubectl -n {settings.namespace} describe deployment "
        "paddock-files",
    )


def _add_ons(settings: KubernetesClusterSettings, found: Discovery) -> Iterator[Check]:
    for name, served, use in (
        ("Kueue", found.queue_api, "runs queue in the scheduler alone"),
        ("JobSet", "served" if found.jobset else None, "a run is one Job a component"),
        ("gang scheduling", found.gang_api, "a run may be placed in part"),
        ("Karpenter", "served" if found.has_karpenter else None, "nodes are reserved"),
    ):
        if served is not None:
            yield _ok(name, served)
        else:
            yield Check(name=name, verdict=Verdict.ABSENT, detail=f"not there: {use}")
    if settings.queue is not None and found.queue_api is not None and not found.jobset:
        yield Check(
            name="queue",
            verdict=Verdict.WARNING,
            detail="Kueue without JobSet admits a run's Jobs one by one",
            mend="install JobSet",
        )


def _image(settings: KubernetesClusterSettings, probes: Probes) -> Check:
    if not probes.image_notice:
        return _ok("image", f"{settings.image} has a digest")
    return Check(
        name="image",
        verdict=Verdict.WARNING,
        detail=probes.image_notice,
        mend="check paddock:image and paddock:imagePullSecrets; nodes may reach it all the same",
    )


def _plugin(probes: Probes) -> Check:
    if probes.has_plugin:
        return _ok("Pulumi's plugin", "pulumi-resource-kubernetes is on PATH")
    return Check(
        name="Pulumi's plugin",
        verdict=Verdict.WARNING,
        detail="no pulumi-resource-kubernetes on PATH: an official Pulumi downloads it",
        mend="make setup-kubernetes",
    )
