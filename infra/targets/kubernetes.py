"""The kubernetes target: pods of a cluster that is there; clusters and volumes are next door."""

from typing import Any

import pulumi

from infra.run_inputs import RunInputs
from infra.run_spec import RunSpec
from infra.targets.kubernetes_cluster import declare_cluster, declare_volume
from runtime.cluster import KubernetesConnection, KubernetesOffer

__all__ = ["declare_cluster", "declare_run", "declare_volume"]

Outputs = dict[str, Any]  # Any: pulumi.Input values of stack outputs


def declare_run(run: RunInputs) -> Outputs:
    """Declare a run: its RunSpec, then its objects on the cluster."""
    from infra.k8s.manifests import run_manifests
    from infra.k8s.placed import PlacedRun
    from infra.k8s.run import IMAGE, KubernetesRunComponent, made_kinds, manifest_digest

    placed = PlacedRun(
        plan=run.plan,
        profile=run.profile,
        config=run.config,
        toml=run.toml,
        image=IMAGE,
        volume_claim=run.volume or _offer(run).run_claim,
        volume_mounted=run.volume is not None,
        environments=run.environments,
        control_plane=run.control_plane,
    )
    manifests = run_manifests(placed)
    for notice in run.notices:
        pulumi.log.info(f"notice: {notice}")
    objects = {"manifestDigest": manifest_digest(manifests), "kinds": made_kinds(manifests)}
    inputs = {**_spec_inputs(run, placed.volume_claim), **objects}
    spec = RunSpec(run.plan.run_id, inputs, outputs=("image", "notice"))
    env = run.env if run.env_names else None
    KubernetesRunComponent(placed, manifests, spec, env=env)
    return {
        "runId": run.plan.run_id,
        "attempt": run.plan.attempt,
        "cluster": run.profile.name,
        "namespace": placed.namespace,
        "claim": placed.volume_claim,
        "runPath": run.run_path,
        "numGpus": run.plan.num_gpus,
        "image": spec.image,
        "imageNotice": spec.notice,
        "notices": list(run.notices),
    }


def _offer(run: RunInputs) -> KubernetesOffer:
    assert run.profile.kubernetes is not None, "a profile of the kubernetes target has it"
    return run.profile.kubernetes


def _spec_inputs(run: RunInputs, claim: str) -> dict[str, Any]:
    plan, connection, offer = run.plan, run.profile.connection, _offer(run)
    assert isinstance(connection, KubernetesConnection), "the target goes by the connection"
    return {
        "runId": plan.run_id,
        "attempt": plan.attempt,
        "target": plan.target,
        "cluster": run.profile.name,
        "context": connection.context,
        "namespace": connection.namespace,
        "configDigest": plan.config_digest,
        "configKeys": run.config_keys,
        "envDigest": run.env_digest,
        "gpuType": plan.pool.gpu_type,
        "numGpus": plan.num_gpus,
        "claim": claim,
        "environments": list(run.environments),
        "imageRepository": offer.image_repository,
        "imageTag": plan.image_tag,
        "resumeFrom": plan.resume_from,
        "imagePullSecrets": list(offer.image_pull_secrets),
    }
