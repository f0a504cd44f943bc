"""Every example config: its manifests hold to the policies, and say what the plan says."""

import pytest

from infra.k8s.manifests import RunManifests, run_manifests
from infra.k8s.placed import Manifest, PlacedRun
from policies import rules
from policies.rules import Subject
from tests.infra.k8s.placing import (
    EXAMPLES,
    NODE_CLASS,
    RUN_ID,
    everything,
    placed_example,
    profile,
)

CLUSTERS = {
    "reserved": profile(),
    "queue": profile(queue="runs", offer={"jobset": True}),
    "gang": profile(offer={"gang_api": "scheduling.k8s.io/v1beta1"}),
    "karpenter": profile(offer={"node_class": NODE_CLASS}),
    "one node": profile(shared_storage=False),
}


def subject(manifest: Manifest) -> Subject:
    """Return a manifest as the policy pack sees it."""
    version = manifest["apiVersion"]
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
    name = manifest["metadata"]["name"]
    spec = rules.RUN_SPEC
    depends = frozenset([spec])
    return Subject(
        urn=f"{token}::{name}", type=token, stack=RUN_ID, props=manifest, depends_on=depends
    )


def violations(run: PlacedRun, found: RunManifests) -> list[str]:
    """Return what the policies say against a run's manifests."""
    props = {"runId": RUN_ID, "attempt": 1, "numGpus": run.plan.num_gpus}
    spec = Subject(urn=rules.RUN_SPEC, type=rules.RUN_SPEC, stack=RUN_ID, props=props)
    subjects = [spec, *(subject(item) for item in everything(found))]
    cap = {"maxGpusPerRun": 64}
    return [
        *(
            f"{item.urn}: {message}"
            for rule in rules.RESOURCE_RULES
            if rule.name != "gpu-cap"  # the index has configs over it
            for item in subjects
            for message in rule.judge(item, cap)
        ),
        *(f"{urn}: {said}" for rule in rules.STACK_RULES for said, urn in rule.judge(subjects)),
    ]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("file", EXAMPLES)
def test_an_examples_manifests_hold_to_the_policies(file: str, cluster: str) -> None:
    run = placed_example(file, profile=CLUSTERS[cluster])

    assert violations(run, run_manifests(run)) == []


@pytest.mark.parametrize("file", EXAMPLES)
def test_an_examples_pods_ask_for_the_gpus_of_its_plan(file: str) -> None:
    run = placed_example(file)

    asked = 0
    for job in run_manifests(run).jobs:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        limits = container["resources"].get("limits", {})
        asked += int(limits.get("nvidia.com/gpu", 0)) * job["spec"]["completions"]
    assert asked == run.plan.num_gpus
