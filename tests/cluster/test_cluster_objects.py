"""A cluster stack's objects before a real API server, Kueue's too: strict, and through the engine.

Kueue's CRDs lie beside the project where there are any; without them its queues stay out.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from runtime.control.dispatch import new_stack
from runtime.kubernetes_kinds import KUEUE_VERSIONS
from runtime.kubernetes_model_job import ModelRequest, model_job, token_secret
from tests.cluster.labs import STACK, make_lab
from tests.infra.k8s.test_cluster_objects import everything, objects
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

CRDS = Path(__file__).resolve().parents[3] / "shared" / "reference" / "crds"
QUEUES = ("LocalQueue", "ClusterQueue", "ResourceFlavor")
FILES = tuple(CRDS / f"kueue.x-k8s.io_{kind.lower()}s.yaml" for kind in QUEUES)


@pytest.fixture(scope="module")
def kueue(testbed: Testbed) -> Iterator[bool]:
    """Install Kueue's CRDs for as long as this module runs; tell whether there are any."""
    if not all(file.exists() for file in FILES):
        yield False
        return
    for file in FILES:
        testbed.kubectl("apply", "--server-side", "--filename", str(file))
    names = [f"crd/{kind.lower()}s.kueue.x-k8s.io" for kind in QUEUES]
    testbed.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    yield True
    for file in FILES:
        testbed.kubectl("delete", "--ignore-not-found", "--filename", str(file))


def test_the_api_takes_every_object_strictly(
    testbed: Testbed, namespace: str, tmp_path: Path, kueue: bool
) -> None:
    lab = make_lab(testbed, tmp_path, namespace)
    stack = everything()
    job = model_job("model", ModelRequest(model="a/b", image="x:1", token="t"), stack.profile)
    secret = token_secret({"metadata": {**job["metadata"], "uid": "u-1"}}, "t")
    found = [*objects(stack), job, secret]
    served = [one for one in found if kueue or one["kind"] not in QUEUES]

    with closing(lab.connect()) as api:
        for manifest in served:
            metadata = {**manifest["metadata"]}
            if "namespace" in metadata:
                metadata["namespace"] = namespace
            api.apply({**manifest, "metadata": metadata}, dry_run=True)

    assert len(served) > 15


def test_queues_are_made_in_order_and_go_again(
    testbed: Testbed, namespace: str, tmp_path: Path, kueue: bool
) -> None:
    if not kueue:
        pytest.skip(f"no CRDs of Kueue in {CRDS}")
    lab = make_lab(testbed, tmp_path, namespace)
    cluster_queue = f"all-{os.urandom(3).hex()}"
    queues = {"queue": "runs", "clusterQueue": cluster_queue, "ownClusterQueue": True}
    new_stack(lab.site.project, STACK, lab.settings(**queues))
    with closing(lab.connect()) as api:
        wait_for(lambda: any(api.serves(version, "LocalQueue") for version in KUEUE_VERSIONS))

        lab.site.pulumi("up", "-s", STACK)
        local = testbed.get("localqueues", "runs", "--namespace", namespace)
        lab.site.pulumi("destroy", "-s", STACK)

    assert local["spec"]["clusterQueue"] == cluster_queue
    for kind in ("clusterqueues", "resourceflavors"):
        found = [one["metadata"]["name"] for one in testbed.get(kind)["items"]]
        assert not [name for name in found if name.startswith(cluster_queue)]
