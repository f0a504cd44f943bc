"""What promotion keeps of plans that it has read, and what it gives where nodes are made."""

from dataclasses import replace
from datetime import timedelta

from runtime.cluster import KubernetesOffer, NodeClass
from runtime.control.operations import OperationKind, OperationState
from runtime.control.places import Seen
from runtime.control.promotions import Promotions, holds_room
from runtime.control.rooms import ClusterRoom
from runtime.control.situations import Situation
from runtime.control.step_kinds import Note
from runtime.control.steps import next_step
from runtime.observe.judge import Transition
from runtime.states import RunState
from tests.runtime.control.reconciling.fakes import GPU, FakeCluster, FakePlaces
from tests.runtime.control.reconciling.site import Site
from tests.runtime.control.reconciling.test_remade import MAKE, NOW, RUN


class OnDemand(FakePlaces):
    """A Karpenter cluster of two nodes of eight GPUs, none of which is ever there."""

    def rooms(self) -> tuple[ClusterRoom, ...]:
        """Return the rooms without a node."""
        return tuple(ClusterRoom(profile=one.profile, nodes=()) for one in self.clusters.values())


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


def test_runs_await_nodes_that_are_made_for_them_and_no_more(
    site: Site, cluster: FakeCluster
) -> None:
    node_class = NodeClass(group="karpenter.k8s.aws", kind="EC2NodeClass", name="gpu")
    kubernetes = KubernetesOffer(image_repository="rl", run_claim="runs", node_class=node_class)
    offer = cluster.profile.gpus[0].model_copy(update={"num_nodes": 2, "gpus_per_node": 8})
    cluster.profile = cluster.profile.model_copy(
        update={"gpus": (offer,), "kubernetes": kubernetes}
    )
    site.reconciler._promotions = Promotions(store=site.store, places=OnDemand({"east": cluster}))

    for run_id in ("run-1", "run-2", "run-3"):
        site.dispatch(run_id)
    site.pass_until(lambda: {"run-1", "run-2"} <= cluster.runs.keys())
    site.reconciler.make_pass()

    waiting = site.run("run-3")
    assert waiting.state is RunState.QUEUED
    assert waiting.reason == f"needs 1 GPU on one node: 0 of 16 {GPU} are free on east"
    assert {site.run(one).state for one in ("run-1", "run-2")} == {RunState.PENDING}

    cluster.become("run-1", RunState.COMPLETED)
    site.pass_until(lambda: "run-3" in cluster.runs)


def test_pods_may_wait_for_their_nodes_as_long_as_by_hand() -> None:
    run = replace(RUN, state=RunState.PENDING, cluster="east", gpu_type=GPU)
    up = replace(MAKE, kind=OperationKind.UP, state=OperationState.DONE, code="")
    words = "1 of 1 pods wait for a node; trainer-0: 0/3 nodes are available"
    seen = Seen(transition=Transition(state=RunState.PENDING, reason=words), num_left=1)

    step = next_step(Situation(run=run, now=NOW + timedelta(days=7), seen=seen, newest=up))

    assert step == Note(reason=words)
    assert holds_room(run)
