"""Runs placed on made-up clusters, for the tests of their manifests."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from infra.k8s.manifests import RunManifests, run_manifests
from infra.k8s.placed import Manifest, PlacedRun
from runtime.cluster import (
    ClusterProfile,
    GpuOffer,
    KubernetesConnection,
    KubernetesOffer,
    NodeClass,
    Toleration,
)
from runtime.config import LoadedConfig, load_config, read_config_file
from runtime.config.inference import DisaggregatedInference
from runtime.plan import build_plan
from tests.runtime.config.examples import DATA, rows
from tests.runtime.deployments import SHAPES, TEXT

RUN_ID = "run-123"
IMAGE = "primeintellect/prime-rl@sha256:0123"
NODE_CLASS = NodeClass(group="karpenter.k8s.aws", kind="EC2NodeClass", name="gpu")
TAINT = Toleration(key="nvidia.com/gpu", effect="NoSchedule")
H200 = GpuOffer(
    name="H200_141GB",
    num_nodes=16,
    gpus_per_node=8,
    price_usd_per_hour=3.5,
    node_selector={"nvidia.com/gpu.product": "NVIDIA-H200"},
    tolerations=(TAINT,),
    cpu_per_node=192.0,
    memory_gib_per_node=2000.0,
    ephemeral_gib_per_node=1000.0,
    rdma_resource="rdma/ib",
    rdma_per_node=8,
    hugepages_2mi_per_node=5121,
)
OFFER = KubernetesOffer(
    image_repository="primeintellect/prime-rl",
    run_claim="runs",
    models_claim="models",
)
EXAMPLES = [row["file"] for row in rows("configs/index.jsonl") if "clean" not in row["expect"]]
"""The example configs but the one that is refused for its `clean`."""


def profile(*, offer: dict[str, Any] | None = None, **over: object) -> ClusterProfile:
    """Return a reserved cluster of H200 nodes; `offer` changes what its pods are made with."""
    values: dict[str, Any] = {
        "name": "lab",
        "gpus": (H200,),
        "connection": KubernetesConnection(context="lab", namespace="team"),
        "runs_path": "/runs",
        "shared_storage": True,
        "kubernetes": OFFER.model_copy(update=offer or {}),
    }
    return ClusterProfile.model_validate(values | over)


def placed(shape: str = "single_node", **over: object) -> PlacedRun:
    """Return a shape of tests/runtime/deployments on a cluster; `over` are fields of PlacedRun."""
    deployment, more, _ = SHAPES[shape]
    return placed_text(TEXT.format(deployment=deployment, more=more), **over)


def placed_text(text: str, **over: object) -> PlacedRun:
    """Return the run of a config text on a cluster."""
    return _placed(load_config(text), **over)


def placed_example(file: str, **over: object) -> PlacedRun:
    """Return the run of an example file."""
    return _placed(_example(file), **over)


def manifests(shape: str = "single_node", **over: object) -> RunManifests:
    """Return the manifests of a shape."""
    return run_manifests(placed(shape, **over))


def job(found: RunManifests, group: str, index: int = 0) -> Manifest:
    """Return a Job by its replicated job's name and its number."""
    (one,) = [
        item
        for item in found.jobs
        if item["metadata"]["labels"]["paddock.dev/replicated-job"] == group
        and item["metadata"]["labels"]["paddock.dev/job-index"] == str(index)
    ]
    return one


def pod(found: RunManifests, group: str) -> Manifest:
    """Return the pod spec of a group."""
    return job(found, group)["spec"]["template"]["spec"]


def main(found: RunManifests, group: str) -> Manifest:
    """Return the main container of a group."""
    (container,) = pod(found, group)["containers"]
    return container


def env(container: Manifest) -> dict[str, str]:
    """Return the literal environment of a container."""
    return {item["name"]: item["value"] for item in container["env"] if "value" in item}


def groups_of(found: RunManifests) -> list[str]:
    """Return the names of the groups of a run, each once."""
    names = [item["metadata"]["labels"]["paddock.dev/replicated-job"] for item in found.jobs]
    return list(dict.fromkeys(names))


def everything(found: RunManifests) -> Iterator[Manifest]:
    """Yield every manifest of a run."""
    yield from found.before
    yield from found.workloads


def disaggregated(run: PlacedRun) -> DisaggregatedInference:
    """Return the disaggregated deployment of a run's inference."""
    assert run.config.inference is not None
    below = run.config.inference.deployment
    assert isinstance(below, DisaggregatedInference)
    return below


@cache
def _example(file: str) -> LoadedConfig:
    return read_config_file(DATA / file)


def _placed(
    loaded: LoadedConfig, *, run_id: str = RUN_ID, attempt: int = 1, **over: object
) -> PlacedRun:
    cluster = over.pop("profile", None) or profile()
    plan = build_plan(loaded, run_id=run_id, attempt=attempt, profile=cluster)
    run = PlacedRun(
        plan=plan,
        profile=cluster,
        config=loaded.config,
        toml=loaded.text,
        image=IMAGE,
        volume_claim="runs",
    )
    return replace(run, **over)
