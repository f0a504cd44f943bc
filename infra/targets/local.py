"""The local target: a state directory, folders, and supervised processes of this machine."""

from pathlib import Path
from typing import Any

import pulumi

from infra.component import Component
from infra.local.files import RunFiles
from infra.local.folder import LocalVolume
from infra.local.process import LocalProcess
from infra.local.state import LocalState
from infra.run_inputs import RunInputs
from infra.run_spec import RunSpec
from infra.settings import StackSettings
from runtime import homes
from runtime.artifacts import RunDirectory
from runtime.cluster import ClusterProfile, LocalConnection
from runtime.launch.components import build_components
from runtime.launch.local import num_local_ports
from runtime.observe.devices import find_devices, local_offers
from runtime.plan import plan_to_json
from runtime.stack_settings import LocalClusterSettings, VolumeSettings

Outputs = dict[str, Any]  # Any: pulumi.Input values of stack outputs


def declare_cluster(settings: StackSettings, body: LocalClusterSettings) -> Outputs:
    """Declare the state directory with its slots; export the ClusterProfile."""
    state_path = (
        settings.root / body.state_path if body.state_path else homes.state_path(settings.stack)
    )
    devices = find_devices(num_cpu_slots=body.slots)
    profile = ClusterProfile(
        name=settings.stack,
        gpus=local_offers(devices, price_usd_per_hour=body.price_usd_per_hour),
        connection=LocalConnection(state_path=str(state_path), cache_path=str(homes.cache_path())),
        runs_path=str((settings.root / body.runs_path).resolve()),
        max_gpus_per_run=body.max_gpus_per_run,
        allow_unknown_fields=body.allow_unknown_fields,
    )
    state = LocalState(
        settings.stack,
        {"statePath": str(state_path), "devices": list(devices)},
        pulumi.ResourceOptions(),
    )
    exported = profile.model_dump(mode="json")
    # after the directory is there: a run stack must not find a profile of nothing
    return {"profile": state.id.apply(lambda _: exported)}


def declare_volume(
    settings: StackSettings, body: VolumeSettings, profile: ClusterProfile
) -> Outputs:
    """Declare a folder that outlives runs; protected."""
    path = str((settings.root / (body.path or f"volumes/{settings.stack}")).resolve())
    inputs = {"path": path, "cluster": profile.name, "volume": settings.stack}
    volume = LocalVolume(settings.stack, inputs, pulumi.ResourceOptions(protect=True))
    return {"path": volume.id, "cluster": profile.name}


def declare_run(run: RunInputs) -> Outputs:
    """Declare a run: its RunSpec, then its files and one process a component."""
    for notice in run.notices:
        pulumi.log.info(f"notice: {notice}")
    spec = RunSpec(run.plan.run_id, _spec_inputs(run))
    LocalRunComponent(run, spec)
    return {
        "runId": run.plan.run_id,
        "attempt": run.plan.attempt,
        "cluster": run.profile.name,
        "runPath": run.run_path,
        "numGpus": run.plan.num_gpus,
        "notices": list(run.notices),
    }


class LocalRunComponent(Component):
    """The workloads of a local run."""

    def __init__(self, run: RunInputs, spec: RunSpec) -> None:
        """Declare the run's files and processes, all of which depend on its RunSpec."""
        plan = run.plan
        super().__init__("local", "Run", plan.run_id)
        identity = _identity(run)
        inside = RunDirectory(Path())  # files are named from the run directory on
        files = {str(inside.toml): run.toml, str(inside.plan): plan_to_json(plan)}
        if run.control_plane is not None:
            files[str(inside.control_plane)] = run.control_plane
        written = RunFiles(
            f"{plan.run_id}-files", {**identity, "files": files}, self.child_opts(spec)
        )
        for component in build_components(plan):
            LocalProcess(
                f"{plan.run_id}-{component.name}",
                {**identity, "component": component.name},
                secret_env=run.env,
                opts=self.child_opts(spec, written),
            )
        self.finish({"runPath": run.run_path})


def _identity(run: RunInputs) -> dict[str, Any]:
    connection = run.profile.connection
    assert isinstance(connection, LocalConnection)
    return {
        "runId": run.plan.run_id,
        "attempt": run.plan.attempt,
        "statePath": str(Path(connection.state_path)),
        "runPath": run.run_path,
    }


def _spec_inputs(run: RunInputs) -> dict[str, Any]:
    plan = run.plan
    return {
        **_identity(run),
        "target": plan.target,
        "cluster": run.profile.name,
        "configDigest": plan.config_digest,
        "configKeys": run.config_keys,
        "envDigest": run.env_digest,
        "gpuType": plan.pool.gpu_type,
        "numGpus": plan.num_gpus,
        "numPorts": num_local_ports(plan),
        "imageTag": plan.image_tag,
        "resumeFrom": plan.resume_from,
        "nullHarness": plan.null_harness,
    }
