"""GangJob: a Job whose pods join a gang, made through paddock's own client.

Pulumi's Kubernetes plugin passes every object of a built-in kind through the Go types that it was
built with, and loses in silence what those do not know (its pkg/clients/unstructured.go,
Normalize). Plugin 4.24 is built with Kubernetes 1.33, whose pods know no spec.schedulingGroup: its
Jobs would be scheduled pod by pod. So Jobs of a gang, and only those, do not go through it.

The inputs are the Job itself, beside how its cluster is reached. This module is never moved or
renamed; old state refers to it by name.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource

from infra.k8s.connected import open_api
from infra.provider_errors import Provider
from runtime import naming

if TYPE_CHECKING:
    from runtime.kubernetes_api import KubernetesApi

Props = dict[str, Any]  # Any: property values as the engine hands them over

KIND = "Job"
_OBJECT = ("apiVersion", "kind", "metadata", "spec")
_OWN_LABELS = (naming.LABEL_RUN, naming.LABEL_ATTEMPT)


class GangJobProvider(Provider):
    """The provider of GangJob."""

    def create(self, props: Props) -> CreateResult:
        """Make the Job; one that a killed `up` has made for this attempt is the run's already.

        None is made for an attempt that is over: `stop` does not wait for an `up` beside it.
        """
        from runtime.errors import StackError
        from runtime.kubernetes_api import KubernetesError

        manifest = whole_numbers({key: props[key] for key in _OBJECT})
        name = str(manifest["metadata"]["name"])
        with open_api(props) as api:
            _check_open(api, manifest["metadata"]["labels"])
            try:
                api.create(KIND, manifest)
            except KubernetesError as error:
                if not error.already_exists:
                    raise
                if not _is_same_attempt(api.get(KIND, name), manifest):
                    raise StackError(
                        f"Job {name} in namespace {props['namespace']} is not of this attempt of "
                        "the run: delete or rename it"
                    ) from None
        return CreateResult(f"{props['namespace']}/{name}", outs=dict(props))

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """A Job cannot change: another one takes its place."""
        keys = ("context", "namespace", *_OBJECT)
        changed = [key for key in keys if _olds.get(key) != _news.get(key)]
        return DiffResult(changes=bool(changed), replaces=changed, delete_before_replace=True)

    def read(self, id_: str, props: Props) -> ReadResult:
        """Report a Job that somebody deleted as gone."""
        with open_api(props) as api:
            found = api.get(KIND, str(props["metadata"]["name"]))
        return ReadResult(id_ if found is not None else "", outs=dict(props))

    def delete(self, _id: str, _props: Props) -> None:
        """Delete the Job and its pods; RunSpec has ended them before, as a rule."""
        with open_api(_props) as api:
            api.delete(KIND, str(_props["metadata"]["name"]), propagation="Background")


class GangJob(Resource, module="paddock/k8s", name="GangJob"):
    """A Job of a run on a cluster with gang scheduling."""

    def __init__(
        self,
        name: str,
        manifest: Mapping[str, Any],  # Any: pulumi.Input values of a Kubernetes object
        *,
        connection: Mapping[str, str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the Job; `connection` is the context and namespace of its cluster."""
        super().__init__(GangJobProvider(), name, {**connection, **manifest}, opts)


def is_of_a_gang(manifest: Mapping[str, Any]) -> bool:
    """Tell whether a manifest is a Job whose pods join a gang."""
    if manifest["kind"] != KIND:
        return False
    return "schedulingGroup" in manifest["spec"]["template"]["spec"]


def whole_numbers(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return a value whose whole numbers are integers again: the engine knows floats only."""
    if isinstance(value, Mapping):
        return {key: whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [whole_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_open(api: "KubernetesApi", labels: Mapping[str, str]) -> None:
    from runtime.kubernetes_record import ClusterRecord
    from runtime.run_record import check_open

    record = ClusterRecord(api, labels[naming.LABEL_RUN]).read()
    if record is not None:
        check_open(record, int(labels[naming.LABEL_ATTEMPT]))


def _is_same_attempt(found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    if found is None or "deletionTimestamp" in found["metadata"]:
        return False
    labels, own = found["metadata"].get("labels") or {}, wanted["metadata"]["labels"]
    return all(labels.get(key) == own[key] for key in _OWN_LABELS)
