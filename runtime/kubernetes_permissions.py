"""What paddock may do on a Kubernetes cluster: the rules of its roles, and who misses which. Pure.

The one table of permissions: the cluster stack makes its Roles of it, `paddock doctor` asks the API
for each line of it. The pods of runs get none of this: they have no service account token.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

READ = ("get", "list", "watch")
WRITE = (*READ, "create", "update", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on resources (`pods/log` with a subresource) of an API group; `only` names objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    only: tuple[str, ...] = ()

    def manifest(self) -> dict[str, Any]:  # Any: a PolicyRule of RBAC
        """Return the rule as it stands in a Role."""
        found: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return {**found, "resourceNames": list(self.only)} if self.only else found


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """One thing that the API is asked about: may the caller do this?"""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str = ""

    def __str__(self) -> str:
        """Return the access in kubectl's words: `create jobs.batch`."""
        resource, _, subresource = self.resource.partition("/")
        group = f".{self.group}" if self.group else ""
        return f"{self.verb} {resource}{group}{'/' if subresource else ''}{subresource}"

    def review(self) -> dict[str, Any]:  # Any: a Kubernetes object
        """Return the SelfSubjectAccessReview that asks."""
        resource, _, subresource = self.resource.partition("/")
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "verb": self.verb,
                    "group": self.group,
                    "resource": resource,
                    "subresource": subresource,
                    "namespace": self.namespace,
                    "name": self.name,
                }
            },
        }


def operator_rules(namespace: str) -> tuple[Rule, ...]:
    """Return what starting, watching and ending runs of a namespace needs, within it."""
    return (
        Rule("", ("namespaces",), ("get",), (namespace,)),
        Rule("", ("configmaps", "secrets", "services"), WRITE),
        Rule("", ("pods",), (*READ, "delete")),
        Rule("", ("pods/log", "pods/proxy"), ("get",)),
        Rule("", ("events",), READ),
        Rule("", ("persistentvolumeclaims",), READ),
        Rule("batch", ("jobs",), WRITE),
        Rule("jobset.x-k8s.io", ("jobsets",), WRITE),
        Rule("kueue.x-k8s.io", ("workloads", "localqueues"), READ),
        Rule("scheduling.k8s.io", ("workloads", "podgroups"), WRITE),
    )


def reconcile_rules(files_secret: str) -> tuple[Rule, ...]:
    """Return what `paddock reconcile` needs in its namespace.

    It watches, writes records, reads the last lines of a run that failed through the file server,
    and deletes the Jobs of a run that is over but whose pods are not.
    """
    return (
        Rule("", ("configmaps",), (*READ, "create", "update", "patch")),
        Rule("", ("pods", "events"), READ),
        Rule("", ("pods/log", "pods/proxy"), ("get",)),
        Rule("", ("secrets",), ("get",), (files_secret,)),
        Rule("batch", ("jobs",), (*READ, "delete")),
        Rule("jobset.x-k8s.io", ("jobsets",), (*READ, "delete")),
        Rule("kueue.x-k8s.io", ("workloads",), READ),
        Rule("scheduling.k8s.io", ("workloads", "podgroups"), READ),
    )


def node_rules() -> tuple[Rule, ...]:
    """Return what it takes to tell that a node is lost."""
    return (Rule("", ("nodes",), READ),)


def operator_node_rules(*, has_node_pools: bool) -> tuple[Rule, ...]:
    """Return what operators need of the whole cluster.

    Free GPUs are those of the nodes less what pods of any namespace hold. On Karpenter, runs own
    node pools.
    """
    found = (*node_rules(), Rule("", ("pods",), ("list",)))
    if not has_node_pools:
        return found
    pools = Rule("karpenter.sh", ("nodepools",), WRITE)
    return (*found, pools, Rule("karpenter.sh", ("nodeclaims",), READ))


def stack_rules() -> tuple[Rule, ...]:
    """Return what bringing the cluster stack up needs in its namespace, besides the operator's."""
    return (
        Rule("", ("serviceaccounts", "resourcequotas"), ("create", "patch", "delete")),
        Rule("", ("persistentvolumeclaims",), ("create",)),
        Rule("apps", ("deployments",), ("create", "patch", "delete")),
        Rule("rbac.authorization.k8s.io", ("roles", "rolebindings"), ("create", "patch", "delete")),
    )


def accesses(rules: tuple[Rule, ...], *, namespace: str) -> Iterator[Access]:
    """Yield one access for each verb and resource of the rules; namespace "" is the cluster."""
    for rule in rules:
        for resource in rule.resources:
            for verb in rule.verbs:
                yield Access(
                    verb=verb,
                    group=rule.group,
                    resource=resource,
                    namespace=namespace,
                    name=rule.only[0] if rule.only else "",
                )


def missing(
    rules: tuple[Rule, ...], *, namespace: str, is_allowed: Callable[[Access], bool]
) -> tuple[str, ...]:
    """Return the accesses of the rules that the caller does not have, in words."""
    return tuple(
        str(access) for access in accesses(rules, namespace=namespace) if not is_allowed(access)
    )
