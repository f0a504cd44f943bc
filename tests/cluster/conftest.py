"""The cluster that these tests run against, and a site of stacks on it.

`cluster`, `testbed` and `namespace` are `tests.testbed.fixtures`'.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.runs import Runs, open_runs
from tests.cluster.sites import ClusterSite, make_cluster_site
from tests.testbed.cluster import Cluster, Testbed
from tests.testbed.fixtures import cluster, namespace, testbed

__all__ = ["cluster", "namespace", "runs", "site", "testbed"]


@pytest.fixture(scope="session")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterSite]:
    """Yield a site whose cluster stack is up: runs get objects, and their pods stay Pending."""
    with make_cluster_site(tmp_path_factory.mktemp("cluster-site"), cluster) as made:
        yield made


@pytest.fixture(scope="session")
def runs(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Yield a lab whose runs' pods really run, with the tiny model in its model cache."""
    with open_runs(testbed, tmp_path_factory.mktemp("runs")) as made:
        yield made
