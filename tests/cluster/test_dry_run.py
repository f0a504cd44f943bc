"""Every manifest of every example config, put before a real API server: it refuses unknown fields.

Server-side dry-run with strict field validation. JobSets and NodePools need their CRDs, which lie
beside the project where there are any; without them those two stay out.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.k8s.manifests import run_manifests
from infra.k8s.placed import Manifest
from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from tests.infra.k8s.placing import (
    EXAMPLES,
    NODE_CLASS,
    everything,
    placed,
    placed_example,
    profile,
)
from tests.runtime.deployments import SHAPES
from tests.testbed.cluster import Cluster
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).resolve().parents[3] / "shared" / "reference" / "crds"
NEEDED = {
    "JobSet": "jobset.x-k8s.io_jobsets.yaml",
    "NodePool": "karpenter.sh_nodepools.yaml",
}
VERSIONS = {"JobSet": "jobset.x-k8s.io/v1alpha2", "NodePool": "karpenter.sh/v1"}
GANG = "scheduling.k8s.io/v1beta1"
RESERVED = "reserved"
QUEUE = "queue"
NODE_POOL = "node pool"
ONE_NODE = "one node"


@pytest.fixture(scope="module")
def namespace(cluster: Cluster) -> Iterator[str]:
    name = cluster.make_namespace("dry-run")
    yield name
    cluster.delete_namespace(name)


@pytest.fixture(scope="module")
def api(cluster: Cluster, namespace: str) -> Iterator[KubernetesApi]:
    context = cluster.kubectl("config", "current-context").strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        api = KubernetesApi.connect(KubernetesConnection(context=context, namespace=namespace))
        yield api
        api.close()


@pytest.fixture(scope="module")
def served(cluster: Cluster, api: KubernetesApi) -> Iterator[frozenset[str]]:
    """Install the CRDs that are missing, for as long as this module runs."""
    missing = [kind for kind in NEEDED if not api.serves(VERSIONS[kind], kind)]
    files = [str(CRDS / NEEDED[kind]) for kind in missing if (CRDS / NEEDED[kind]).exists()]
    for file in files:
        cluster.kubectl("apply", "--server-side", "--filename", file)
    kinds = [kind for kind in NEEDED if kind not in missing or (CRDS / NEEDED[kind]).exists()]
    wait_for(lambda: all(api.serves(VERSIONS[kind], kind) for kind in kinds))
    yield frozenset(kinds)
    for file in files:
        cluster.kubectl("delete", "--ignore-not-found", "--filename", file)


def clusters(api: KubernetesApi, namespace: str) -> dict[str, ClusterProfile]:
    """Return clusters that between them make every kind of object."""
    connection = KubernetesConnection(context="any", namespace=namespace)
    gang = GANG if api.serves(GANG, "PodGroup") else None
    return {
        RESERVED: profile(connection=connection, offer={"gang_api": gang}),
        QUEUE: profile(connection=connection, queue="runs", offer={"jobset": True}),
        NODE_POOL: profile(connection=connection, offer={"node_class": NODE_CLASS}),
        ONE_NODE: profile(
            connection=connection, shared_storage=False, offer={"models_claim": None}
        ),
    }


def refused(api: KubernetesApi, served: frozenset[str], manifest: Manifest) -> str | None:
    """Return why the API refuses a manifest, None where it takes it or does not know the kind."""
    if manifest["kind"] in NEEDED and manifest["kind"] not in served:
        return None
    try:
        api.apply(manifest, dry_run=True)
    except KubernetesError as error:
        return f"{manifest['kind']} {manifest['metadata']['name']}: {error}"
    return None


@pytest.mark.parametrize("kind", [RESERVED, QUEUE, NODE_POOL, ONE_NODE])
def test_the_api_takes_every_manifest_of_every_example(
    api: KubernetesApi, served: frozenset[str], namespace: str, kind: str
) -> None:
    where = clusters(api, namespace)[kind]

    said = [
        refused(api, served, manifest)
        for file in EXAMPLES
        for manifest in everything(
            run_manifests(placed_example(file, profile=where, environments=("math-env==1.0",)))
        )
    ]

    assert len(said) > len(EXAMPLES)
    assert [reason for reason in said if reason is not None] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_the_api_takes_every_shape_with_all_that_a_pod_can_have(
    api: KubernetesApi, served: frozenset[str], namespace: str, shape: str
) -> None:
    extras = {"image_pull_secrets": ("pull",), "exclusive_label": "reserved-for"}
    where = clusters(api, namespace)[NODE_POOL]
    assert where.kubernetes is not None
    rich = where.model_copy(update={"kubernetes": where.kubernetes.model_copy(update=extras)})

    found = run_manifests(placed(shape, profile=rich, volume_mounted=True))

    said = [refused(api, served, manifest) for manifest in everything(found)]
    assert [reason for reason in said if reason is not None] == []


def test_a_field_that_the_api_does_not_know_is_refused(
    api: KubernetesApi, served: frozenset[str], namespace: str
) -> None:
    (job, *_) = run_manifests(placed(profile=clusters(api, namespace)[RESERVED])).jobs
    job["spec"]["template"]["spec"]["enableServiceLink"] = False

    reason = refused(api, served, job)

    assert reason is not None
    assert "enableServiceLink" in reason
