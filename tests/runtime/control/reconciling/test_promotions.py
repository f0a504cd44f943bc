"""What promotion keeps of plans that it has read."""

from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import FakeCluster
from tests.runtime.control.reconciling.site import Site


def test_plans_are_kept_of_live_runs_only(site: Site, cluster: FakeCluster) -> None:
    site.dispatch("run-big", num_gpus=9)  # waits for ever
    site.dispatch("run-1", gpu_type="H200_141GB", num_gpus=1)
    site.reconciler.make_pass()
    kept = site.reconciler._promotions._parts
    assert kept.keys() == {("run-big", 1), ("run-1", 1)}

    site.intents.stop(site.user, "run-1")
    site.until_settled("run-1")
    site.reconciler.make_pass()

    assert site.run("run-big").state is RunState.QUEUED
    assert kept.keys() == {("run-big", 1)}
