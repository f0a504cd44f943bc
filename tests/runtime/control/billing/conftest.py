"""The reconciler's server over a fake cluster, for tests of what it does at a limit."""

from tests.runtime.control.reconciling.conftest import cluster, operator, site

__all__ = ["cluster", "operator", "site"]
