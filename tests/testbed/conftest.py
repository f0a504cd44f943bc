"""The cluster that these tests run against; see `tests.testbed.fixtures`."""

from tests.testbed.fixtures import cluster, namespace, testbed

__all__ = ["cluster", "namespace", "testbed"]
