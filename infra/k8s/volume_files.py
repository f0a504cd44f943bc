"""VolumeFilesComponent: the file server of a volume stack, which goes with the stack's claim."""

import pulumi

from infra.component import Component
from infra.k8s.adopted import AdoptedStack
from infra.k8s.claim import Volume
from infra.k8s.cluster import resource_name
from infra.k8s.files_server import volume_files_server
from infra.k8s.resources import KubernetesObject, make_provider


class VolumeFilesComponent(Component):
    """What shows the run directories of a volume from outside the cluster."""

    def __init__(self, name: str, stack: AdoptedStack, claim: str, volume: Volume) -> None:
        """Declare the server of a claim; `name` is the volume stack's."""
        super().__init__("k8s", "VolumeFiles", name)
        provider = make_provider(f"{name}-kubernetes", stack.connection)
        opts = pulumi.ResourceOptions.merge(
            self.child_opts(volume), pulumi.ResourceOptions(provider=provider)
        )
        for manifest in volume_files_server(stack, name, claim):
            KubernetesObject(resource_name(stack, manifest), manifest, opts)
        self.finish({"claim": claim})
