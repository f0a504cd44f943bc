"""Declares a run and a volume; CASE names the one thing that is wrong with them.

The dynamic resources have the type tokens of infra's and providers that do nothing, and the
Kubernetes objects are component resources of the same token, so that no plugin is needed.
"""

import os
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from runtime import naming

CASE = os.environ.get("CASE", "")
RUN_ID = pulumi.get_stack()
ATTEMPT = int(os.environ.get("ATTEMPT", "1"))


class Nothing(ResourceProvider):
    """A provider that keeps the inputs, as infra's do."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Create nothing."""
        return CreateResult("nothing", outs=dict(props))

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Report a later attempt as an update."""
        return DiffResult(changes=_olds.get("attempt") != _news.get("attempt"))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Update nothing."""
        return UpdateResult(outs=dict(_news))


class RunSpec(Resource, module="paddock", name="RunSpec"):
    """As infra.run_spec.RunSpec."""


class Process(Resource, module="paddock/local", name="Process"):
    """As infra.local.process.LocalProcess."""


class Volume(Resource, module="paddock/local", name="Volume"):
    """As infra.local.folder.LocalVolume."""


class Pod(pulumi.ComponentResource):
    """As pulumi_kubernetes' Pod; a stack rule sees a component's outputs, so it has them."""

    def __init__(self, props: dict[str, Any], opts: pulumi.ResourceOptions) -> None:
        """Declare the pod."""
        super().__init__("kubernetes:core/v1:Pod", "pod", props, opts)
        self.register_outputs(props)


def declare_run() -> None:
    """Declare a run of a RunSpec, a process and a pod."""
    num_gpus = 65 if CASE == "gpu-cap" else 8
    spec_inputs = {"runId": RUN_ID, "attempt": ATTEMPT, "numGpus": num_gpus, "unknown": None}
    spec = RunSpec(Nothing(), RUN_ID, spec_inputs)
    attempt: Any = {"attempt": ATTEMPT + 1, "unknown-attempt": spec.unknown}.get(CASE, ATTEMPT)
    run_id = "run-124" if CASE == "identity" else RUN_ID
    behind = pulumi.ResourceOptions(depends_on=[] if CASE == "loose" else [spec])
    secret_env = pulumi.Output.secret({"K": "hunter2"})
    inputs = {"runId": run_id, "attempt": attempt, "secretEnv": secret_env}
    Process(Nothing(), f"{RUN_ID}-trainer", inputs, behind)
    labels = {} if CASE == "labels" else naming.run_labels(RUN_ID, ATTEMPT, "trainer-0")
    name = "HF_TOKEN" if CASE == "credential" else "OMP_NUM_THREADS"
    container = {"name": "main", "env": [{"name": name, "value": "hunter2"}]}
    props = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    Pod(props, pulumi.ResourceOptions(depends_on=[spec]))


if CASE.startswith("volume"):
    is_protected = CASE == "volume"
    Volume(Nothing(), "data", {"path": "data"}, pulumi.ResourceOptions(protect=is_protected))
else:
    declare_run()
