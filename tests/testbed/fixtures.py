"""Fixtures of the tests that need a cluster; a conftest imports what its folder uses.

PADDOCK_TEST_KUBECONFIG names a cluster of the user's, against which the same tests run: those that
need what only the testbed can do are skipped, and say so.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import lifecycle
from tests.testbed.cluster import Cluster, Testbed
from tests.testbed.layout import KUBECONFIG_VARIABLE
from tests.testbed.programs import build_programs


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return the user's cluster, else the testbed; one that was started here is stopped."""
    own = os.environ.get(KUBECONFIG_VARIABLE)
    if own:
        yield Cluster(kubeconfig=Path(own), kubectl=_find_kubectl())
        return
    testbed, is_ours = lifecycle.start()
    yield testbed
    if is_ours:
        lifecycle.stop()


@pytest.fixture(scope="session")
def testbed(cluster: Cluster) -> Testbed:
    """Return the testbed; skip a test that needs it where a user's cluster is named."""
    if not isinstance(cluster, Testbed):
        pytest.skip(f"needs the testbed, and {KUBECONFIG_VARIABLE} names another cluster")
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Return a new namespace; its pods and the rest go afterwards."""
    name = cluster.make_namespace()
    yield name
    cluster.delete_namespace(name)


def _find_kubectl() -> str:
    found = shutil.which("kubectl")
    return found or build_programs().find("kubectl")
