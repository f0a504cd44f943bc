"""KubernetesRunComponent: the objects of a run as resources, all behind its RunSpec.

What they are is decided by `infra.k8s.manifests`; here is the order, the Secret, whose values are
an Output, and the image, which RunSpec resolves. RunSpec's own end removes every object of the run
by label, workloads first, so the engine is not to delete them one by one (`deleted_with`): a
destroy then needs the cluster from one place only, which waits for it.
"""

import dataclasses
import hashlib
import json
from typing import Any

import pulumi

from infra.component import Component
from infra.k8s.adopted import SKIP_AWAIT
from infra.k8s.gang_job import GangJob, is_of_a_gang
from infra.k8s.manifests import RunManifests
from infra.k8s.placed import Manifest, PlacedRun
from infra.k8s.resources import KubernetesObject, make_provider
from infra.run_spec import RunSpec
from runtime import pod_names
from runtime.cluster import KubernetesConnection

IMAGE = "IMAGE"
"""Stands in the manifests for the image until RunSpec has resolved its tag."""


class KubernetesRunComponent(Component):
    """The objects of one attempt of a run."""

    def __init__(
        self,
        placed: PlacedRun,
        manifests: RunManifests,
        spec: RunSpec,
        *,
        env: pulumi.Output[dict[str, str]] | None,
    ) -> None:
        """Declare the Secret, what must be there before the first pod, and what makes pods."""
        run_id = placed.plan.run_id
        super().__init__("k8s", "Run", run_id)
        connection = placed.profile.connection
        assert isinstance(connection, KubernetesConnection), "the target goes by the connection"
        self._run_id, self._spec = run_id, spec
        self._connection = {"context": connection.context, "namespace": connection.namespace}
        self._run_provider = make_provider(f"{run_id}-kubernetes", connection)
        secret = self._declare(secret_manifest(placed, env), secret_values=("data", "stringData"))
        before = [secret, *(self._declare(manifest) for manifest in manifests.before)]
        for manifest in manifests.workloads:
            self._declare(with_image(manifest, spec.image), *before)
        self.finish({"namespace": placed.namespace, "image": spec.image})

    def _declare(
        self,
        manifest: Manifest,
        *depends_on: pulumi.Resource,
        secret_values: tuple[str, ...] = (),
    ) -> pulumi.Resource:
        kind, name = str(manifest["kind"]).lower(), manifest["metadata"]["name"]
        opts = pulumi.ResourceOptions.merge(
            self.child_opts(self._spec, *depends_on),
            pulumi.ResourceOptions(
                deleted_with=self._spec,
                delete_before_replace=True,  # the name is fixed: addresses and selectors go by it
                additional_secret_outputs=list(secret_values),
            ),
        )
        resource_name = f"{self._run_id}-{kind}-{name}"
        if is_of_a_gang(manifest):
            return GangJob(resource_name, manifest, connection=self._connection, opts=opts)
        provided = pulumi.ResourceOptions(provider=self._run_provider)
        opts = pulumi.ResourceOptions.merge(opts, provided)
        return KubernetesObject(resource_name, not_awaited(manifest), opts)


def secret_manifest(placed: PlacedRun, values: pulumi.Output[dict[str, str]] | None) -> Manifest:
    """Return the run's one Secret, there even without values: every pod names it."""
    name = pod_names.secret_name(placed.plan.run_id, placed.plan.attempt)
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": placed.metadata(name),
        "type": "Opaque",
    }
    # an empty map would differ from the API's none at every `up`
    return manifest if values is None else {**manifest, "stringData": values}


def not_awaited(manifest: Manifest) -> Manifest:
    """Return a manifest whose acceptance is all that `up` waits for."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), **SKIP_AWAIT}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def with_image(value: Any, image: pulumi.Output[str]) -> Any:  # noqa: ANN401 - JSON values
    """Return a manifest with the image in the place that was left for it."""
    if isinstance(value, dict):
        return {
            key: image if key == "image" and item == IMAGE else with_image(item, image)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [with_image(item, image) for item in value]
    return value


def manifest_digest(manifests: RunManifests) -> str:
    """Return a digest of every object but the Secret; a live run is refused where it changes."""
    text = json.dumps(dataclasses.asdict(manifests), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def made_kinds(manifests: RunManifests) -> list[str]:
    """Return the kinds of object that the run makes, pods and the Secret included."""
    declared = [*manifests.before, *manifests.workloads]
    return sorted({"Secret", "Job", "Pod", *(str(manifest["kind"]) for manifest in declared)})
