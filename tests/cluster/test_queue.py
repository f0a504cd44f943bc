"""A run in a Kueue queue: one JobSet, whose fields that Kueue writes no later `up` touches.

The CRDs of Kueue and JobSet lie beside the project where there are any; their controllers are
played by the test, which writes what they would.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.states import RunState
from tests.cluster.kueue import QUEUE, PlayedKueue, kueue_served, local_queue, workload_of
from tests.cluster.sites import LAB, ClusterSite, make_cluster_site
from tests.testbed.cluster import Testbed

pytestmark = pytest.mark.cluster

RUN = "run-queued"


@pytest.fixture
def queued(testbed: Testbed, tmp_path: Path) -> Iterator[ClusterSite]:
    """Yield a site whose runs wait in a queue."""
    with kueue_served(testbed), make_cluster_site(tmp_path, testbed) as site:
        testbed.apply(local_queue(site.namespace))
        site.pulumi("config", "set", "paddock:queue", QUEUE, "-s", LAB)
        site.pulumi("up", "-s", LAB)
        yield site


def test_what_kueue_writes_into_a_run_stays_and_its_words_are_the_runs(
    queued: ClusterSite, testbed: Testbed
) -> None:
    site, target = queued, ("jobset", f"{RUN}-1", "--namespace", queued.namespace)
    site.new_run(RUN)
    site.pulumi("up", "-s", RUN)
    made = testbed.get(*target)

    written = '{"spec":{"suspend":true}}'
    testbed.kubectl("patch", *target, "--type=merge", "--field-manager=kueue", "-p", written)
    again = site.pulumi("up", "-s", RUN)
    after = testbed.get(*target)
    testbed.apply(workload_of(after))
    words = "2 GPUs are more than the queue ever has"
    PlayedKueue(api=site.api).say(f"{RUN}-1", ("QuotaReserved", "False", "ExceedsMaxQuota", words))
    waited = site.paddock("wait", RUN, expect=None)
    site.pulumi("destroy", "-s", RUN)

    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == QUEUE
    assert "suspend" not in made["spec"]
    assert "unchanged" in again.text
    assert "replaced" not in again.text
    assert after["metadata"]["uid"] == made["metadata"]["uid"]
    assert after["spec"]["suspend"] is True
    assert waited.code == 1, waited.text
    record = site.cluster_record(RUN)
    assert record.state is RunState.FAILED
    assert f"ExceedsMaxQuota: {words}" in record.reason
    kinds = "jobsets,jobs,pods,podgroups,services,configmaps,secrets"
    selector = ("--selector", f"paddock.dev/run={RUN},!paddock.dev/record")
    left = testbed.get(kinds, "--namespace", site.namespace, *selector)["items"]
    assert [one["kind"] for one in left] == []
