"""AdoptedNamespace: the namespace of the runs; made where it is missing, never deleted.

It may be the user's own and hold other things, so destroying the cluster stack leaves it. This
module is never moved or renamed; old state refers to it by name.
"""

from typing import Any

import pulumi
from pulumi.dynamic import CheckFailure, CheckResult, CreateResult, DiffResult, ReadResult, Resource

from infra.k8s.connected import open_api
from infra.provider_errors import Provider

Props = dict[str, Any]  # Any: property values as the engine hands them over


class AdoptedNamespaceProvider(Provider):
    """The provider of AdoptedNamespace."""

    def check(self, _olds: Props, news: Props) -> CheckResult:
        """Refuse a namespace that is being deleted."""
        with open_api(news) as api:
            found = api.get("Namespace", news["namespace"])
        if found is not None and "deletionTimestamp" in found["metadata"]:
            reason = (
                f"namespace {news['namespace']} is being deleted: wait until it is gone, or choose "
                "another one (paddock:namespace)"
            )
            return CheckResult(news, [CheckFailure("", reason)])
        return CheckResult(news, [])

    def create(self, props: Props) -> CreateResult:
        """Make the namespace, or adopt the one that is there."""
        with open_api(props) as api:
            adopted = api.get("Namespace", props["namespace"]) is not None
            if not adopted:
                api.create("Namespace", _manifest(props))
        return CreateResult(props["namespace"], outs={**props, "adopted": adopted})

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another context or name is another namespace."""
        moved = [key for key in ("context", "namespace") if _olds[key] != _news[key]]
        return DiffResult(changes=bool(moved), replaces=moved)

    def read(self, id_: str, props: Props) -> ReadResult:
        """Report a namespace that somebody deleted as gone."""
        with open_api(props) as api:
            found = api.get("Namespace", props["namespace"])
        return ReadResult(id_ if found is not None else "", outs=dict(props))

    def delete(self, _id: str, _props: Props) -> None:
        """Leave the namespace: others may use it, and the volumes are in it."""


class AdoptedNamespace(Resource, module="paddock/k8s", name="Namespace"):
    """A namespace that a cluster stack uses and does not own."""

    def __init__(self, name: str, inputs: Props, opts: pulumi.ResourceOptions) -> None:
        """Declare the namespace; `adopted` tells whether it was there before."""
        super().__init__(AdoptedNamespaceProvider(), name, {**inputs, "adopted": None}, opts)


def _manifest(props: Props) -> dict[str, Any]:  # Any: a Kubernetes object
    metadata = {"name": props["namespace"], "labels": dict(props["labels"])}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
