"""The straight line as code: settings, config, plan, admission, target."""

import pulumi

from infra import run_inputs
from infra.settings import StackSettings, read_profile
from infra.targets import find_target
from runtime.stack_settings import ClusterSettings, VolumeSettings


def deploy(settings: StackSettings) -> None:
    """Declare everything that this stack is made of, and export what others read of it."""
    body = settings.body
    if isinstance(body, ClusterSettings):
        outputs = find_target(body.target).declare_cluster(settings, body)
    elif isinstance(body, VolumeSettings):
        profile = read_profile(body.cluster)
        outputs = find_target(profile.target).declare_volume(settings, body, profile)
    else:
        request = run_inputs.read_request(settings, body)
        loaded = run_inputs.read_config(request)
        plan = run_inputs.plan_run(request, loaded)
        run = run_inputs.admit(request, loaded, plan)
        outputs = find_target(plan.target).declare_run(run)
    for name, value in outputs.items():
        pulumi.export(name, value)
