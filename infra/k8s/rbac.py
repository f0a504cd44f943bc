"""Roles of a cluster stack: one for who operates runs, one for `paddock reconcile`. Pure.

Least privilege by one table, `runtime.kubernetes_permissions`. The pods of runs are bound to
nothing, and get no token.
"""

from infra.k8s.adopted import AdoptedStack, Manifest
from runtime.kubernetes_discovery import OPERATOR
from runtime.kubernetes_permissions import (
    Rule,
    node_rules,
    operator_node_rules,
    operator_rules,
    reconcile_rules,
)
from runtime.kubernetes_profile import FILES_SECRET

RECONCILE = "paddock-reconcile"
"""ServiceAccount and Role of the in-cluster `paddock reconcile`."""

_RBAC = "rbac.authorization.k8s.io"


def operator_access(stack: AdoptedStack) -> list[Manifest]:
    """Return the account and role of an operator of the namespace's runs."""
    return _account(stack, OPERATOR, operator_rules(stack.namespace))


def reconcile_access(stack: AdoptedStack) -> list[Manifest]:
    """Return the account and role of the in-cluster observer."""
    return _account(stack, RECONCILE, reconcile_rules(FILES_SECRET))


def operator_node_access(stack: AdoptedStack) -> list[Manifest]:
    """Return the cluster-wide role by which operators see nodes, and own pools on Karpenter."""
    has_node_pools = stack.settings.node_class is not None
    return _cluster_role(stack, OPERATOR, operator_node_rules(has_node_pools=has_node_pools))


def reconcile_node_access(stack: AdoptedStack) -> list[Manifest]:
    """Return the cluster-wide role by which the observer sees that a node is lost."""
    return _cluster_role(stack, RECONCILE, node_rules())


def _cluster_role(stack: AdoptedStack, account: str, rules: tuple[Rule, ...]) -> list[Manifest]:
    name = f"{account}-{stack.namespace}"
    metadata = stack.global_metadata(name)
    role = {"kind": "ClusterRole", "metadata": metadata, "rules": [one.manifest() for one in rules]}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [_subject(stack, account)],
    }
    return [{"apiVersion": f"{_RBAC}/v1", **one} for one in (role, binding)]


def _account(stack: AdoptedStack, name: str, rules: tuple[Rule, ...]) -> list[Manifest]:
    metadata = stack.metadata(name)
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [rule.manifest() for rule in rules],
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
            "subjects": [_subject(stack, name)],
        },
    ]


def _subject(stack: AdoptedStack, account: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": account, "namespace": stack.namespace}
