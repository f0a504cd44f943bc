"""Who starts where: first in, first out, and nobody past a head that waits for the same room."""

from dataclasses import replace

import pytest

from runtime.cluster import (
    ClusterProfile,
    GpuOffer,
    KubernetesOffer,
    LocalConnection,
    NodeClass,
)
from runtime.control.rooms import ClusterRoom, NodeRoom
from runtime.control.scheduler import (
    Promotion,
    QueuedRun,
    Reservation,
    Waiting,
    plan_promotions,
)

H100, H200 = "H100_80GB", "H200_141GB"


def room(
    name: str = "east",
    *free: int,
    size: int = 8,
    gpu_type: str = H100,
    price: float = 2.0,
    queues: bool = False,
) -> ClusterRoom:
    offer = GpuOffer(
        name=gpu_type,
        num_nodes=max(1, len(free)),
        gpus_per_node=size,
        price_usd_per_hour=price,
    )
    profile = ClusterProfile(
        name=name,
        gpus=(offer,),
        connection=LocalConnection(state_path="/s", cache_path="/c"),
        runs_path="/runs",
    )
    nodes = tuple(
        NodeRoom(name=f"{name}-{index}", gpu_type=gpu_type, num_gpus=size, num_free=one)
        for index, one in enumerate(free)
    )
    return ClusterRoom(profile=profile, nodes=nodes, queues=queues)


def on_demand(num_nodes: int, *held: str, gpu_type: str = H100) -> ClusterRoom:
    """Return a Karpenter cluster's room, with the nodes that runs hold by now."""
    node_class = NodeClass(group="karpenter.k8s.aws", kind="EC2NodeClass", name="gpu")
    made = in_pods(room("lab", *[0] * num_nodes, gpu_type=gpu_type), node_class)
    nodes = tuple(
        # tainted with its run's id, so a barrier to every other one
        NodeRoom(name=run_id, gpu_type=gpu_type, num_gpus=0, num_free=0, held={run_id: 2})
        for run_id in held
    )
    return replace(made, nodes=nodes)


def in_pods(made: ClusterRoom, node_class: NodeClass | None = None) -> ClusterRoom:
    """Return a room as that of a Kubernetes cluster."""
    offer = KubernetesOffer(image_repository="prime-rl", run_claim="runs", node_class=node_class)
    return replace(made, profile=made.profile.model_copy(update={"kubernetes": offer}))


def run(run_id: str, *parts: int, **changes: object) -> QueuedRun:
    return replace(QueuedRun(run_id=run_id, parts=parts), **changes)  # type: ignore[arg-type]  # by name


def promoted(answers: list[Promotion | Waiting]) -> dict[str, str]:
    return {one.run_id: one.cluster for one in answers if isinstance(one, Promotion)}


def waiting(answers: list[Promotion | Waiting]) -> dict[str, Waiting]:
    return {one.run_id: one for one in answers if isinstance(one, Waiting)}


def test_runs_start_in_their_order_while_there_is_room() -> None:
    answers = plan_promotions([run("a", 4), run("b", 3), run("c", 2)], [room("east", 8)], [])

    assert promoted(answers) == {"a": "east", "b": "east"}
    assert waiting(answers)["c"].ahead == 0
    assert waiting(answers)["c"].reason == "needs 2 GPUs: 1 of 8 H100_80GB are free on east"


def test_nobody_passes_a_head_that_waits_for_the_same_room() -> None:
    answers = plan_promotions([run("a", 8), run("b", 1)], [room("east", 4)], [])

    assert promoted(answers) == {}
    assert waiting(answers)["b"] == Waiting(
        run_id="b", reason="waits behind earlier runs for 1 GPU", ahead=1
    )


def test_a_later_run_starts_where_the_head_cannot_run_at_all() -> None:
    rooms = [room("east", 4), room("west", 4, gpu_type=H200)]

    answers = plan_promotions([run("a", 8, gpu_type=H100), run("b", 1)], rooms, [])

    assert promoted(answers) == {"b": "west"}


def test_the_cheapest_fitting_cluster_is_picked() -> None:
    rooms = [room("dear", 8, price=3.0), room("cheap", 2, price=1.0), room("fair", 8, price=2.0)]

    answers = plan_promotions([run("a", 4)], rooms, [])

    assert promoted(answers) == {"a": "fair"}


def test_gpus_of_one_node_are_needed_together() -> None:
    answers = plan_promotions([run("a", 6)], [room("east", 4, 4)], [])

    assert waiting(answers)["a"].reason == (
        "needs 6 GPUs on one node: 8 of 16 H100_80GB are free on east"
    )


def test_a_run_of_several_nodes_takes_whole_nodes() -> None:
    answers = plan_promotions([run("a", 8, 8), run("b", 4)], [room("east", 8, 4, 8)], [])

    assert promoted(answers) == {"a": "east", "b": "east"}


def test_what_a_promoted_run_has_not_taken_yet_is_not_free() -> None:
    held = Reservation(run_id="old", cluster="east", gpu_type=H100, parts=(4,))

    answers = plan_promotions([run("a", 6)], [room("east", 8)], [held])

    assert promoted(answers) == {}


def test_what_a_promoted_run_has_taken_is_not_counted_twice() -> None:
    east = room("east", 4)
    node = replace(east.nodes[0], held={"old": 4})
    held = Reservation(run_id="old", cluster="east", gpu_type=H100, parts=(4,))

    answers = plan_promotions([run("a", 4)], [replace(east, nodes=(node,))], [held])

    assert promoted(answers) == {"a": "east"}


def test_a_cluster_with_a_queue_takes_every_run_at_once() -> None:
    answers = plan_promotions(
        [run("a", 64), run("b", 64)], [room("queue", size=8, queues=True)], []
    )

    assert [one.is_queued_there for one in answers if isinstance(one, Promotion)] == [True, True]


def test_a_run_whose_stack_is_being_made_keeps_its_room() -> None:
    queued = [run("a", 6, is_ready=False), run("b", 4), run("c", 2)]

    answers = plan_promotions(queued, [room("east", 8)], [])

    assert waiting(answers)["a"].reason == "its stack is being made"
    assert promoted(answers) == {}


def test_what_no_cluster_has_is_said() -> None:
    rooms = [room("east", 8)]

    answers = plan_promotions(
        [run("a", 16), run("b", 2, gpu_type=H200), run("c", 1, cluster="gone"), run("d", 1)],
        rooms,
        [],
    )

    reasons = {name: one.reason for name, one in waiting(answers).items()}
    assert reasons == {
        "a": "no cluster has 16 GPUs, free or not",
        "b": "no cluster has 2 H200_141GB, free or not",
        "c": "cluster gone does not answer",
    }
    assert promoted(answers) == {"d": "east"}


def test_a_run_starts_where_its_nodes_are_made_on_demand() -> None:
    answers = plan_promotions([run("a", 2), run("b", 8, 8)], [on_demand(3)], [])

    assert promoted(answers) == {"a": "lab", "b": "lab"}


def test_a_run_has_whole_nodes_where_they_are_made_for_it() -> None:
    answers = plan_promotions([run("a", 2), run("b", 2), run("c", 2)], [on_demand(2)], [])

    assert promoted(answers) == {"a": "lab", "b": "lab"}
    assert waiting(answers)["c"].reason == (
        "needs 2 GPUs on one node: 0 of 16 H100_80GB are free on lab"
    )


@pytest.mark.parametrize("nodes", [(), ("old",), ("old", "old")], ids=["none", "one", "both"])
def test_nodes_that_a_promoted_run_awaits_are_not_given_twice(nodes: tuple[str, ...]) -> None:
    held = Reservation(run_id="old", cluster="lab", gpu_type=H100, parts=(8, 8))

    answers = plan_promotions([run("a", 8, 8), run("b", 8)], [on_demand(3, *nodes)], [held])

    assert promoted(answers) == {}
    answers = plan_promotions([run("b", 8)], [on_demand(3, *nodes)], [held])
    assert promoted(answers) == {"b": "lab"}


def test_nodes_of_runs_by_hand_are_taken_too() -> None:
    answers = plan_promotions([run("a", 8), run("b", 8)], [on_demand(2, "by-hand")], [])

    assert promoted(answers) == {"a": "lab"}


def test_more_nodes_than_are_ever_made_are_nowhere() -> None:
    answers = plan_promotions([run("a", 8, 8), run("b", 9)], [on_demand(1)], [])

    reasons = {name: one.reason for name, one in waiting(answers).items()}
    assert reasons == {
        "a": "no cluster has 2 nodes of 8 GPUs, free or not",
        "b": "no cluster has 9 GPUs, free or not",
    }


def test_a_type_without_a_node_has_the_nodes_that_pods_bring() -> None:
    lab = replace(in_pods(room("lab", 0, 0)), nodes=())
    held = Reservation(run_id="old", cluster="lab", gpu_type=H100, parts=(2,))

    answers = plan_promotions([run("a", 6), run("b", 6), run("c", 4)], [lab], [held])

    assert promoted(answers) == {"a": "lab", "b": "lab"}
    assert waiting(answers)["c"].reason == (
        "needs 4 GPUs on one node: 2 of 16 H100_80GB are free on lab"
    )


def test_nodes_that_are_missing_beside_others_are_not_counted_on() -> None:
    lab = in_pods(room("lab", 8, 8))
    [first, _] = lab.nodes
    plugin_away = replace(first, num_gpus=0, num_free=0)

    left = plan_promotions([run("a", 8), run("b", 8)], [replace(lab, nodes=(first,))], [])
    broken = plan_promotions([run("a", 8)], [replace(lab, nodes=(plugin_away,))], [])

    assert promoted(left) == {"a": "lab"}
    assert waiting(broken)["a"].reason == (
        "needs 8 GPUs: 0 of 0 H100_80GB are free on lab, which has 0 of its 2 nodes now"
    )


def test_a_head_waits_for_nodes_that_are_missing_and_nobody_passes_it() -> None:
    lab = in_pods(room("lab", 8, 8, 8, 8))
    one_up = replace(lab, nodes=lab.nodes[:1])

    answers = plan_promotions([run("a", 8, 8), run("b", 8)], [one_up], [])
    all_up = plan_promotions([run("a", 8, 8), run("b", 8)], [lab], [])

    assert promoted(answers) == {}
    assert {name: one.reason for name, one in waiting(answers).items()} == {
        "a": "needs 2 nodes of 8 GPUs: 8 of 8 H100_80GB are free on lab, "
        "which has 1 of its 4 nodes now",
        "b": "waits behind earlier runs for 8 GPUs",
    }
    assert promoted(all_up) == {"a": "lab", "b": "lab"}


def test_a_head_that_waits_for_missing_nodes_holds_no_other_room() -> None:
    lab = in_pods(room("lab", 8, 8))
    broken = replace(lab, nodes=lab.nodes[:1])
    rooms = [broken, room("east", 8, 0)]

    alone = plan_promotions([run("a", 8, 8, cluster="lab"), run("b", 8)], rooms, [])
    beside = plan_promotions([run("a", 8, 8), run("b", 8, cluster="lab")], rooms, [])

    assert promoted(alone) == {"b": "east"}
    assert waiting(beside)["a"].reason == (
        "needs 2 nodes of 8 GPUs: 8 of 16 H100_80GB are free on east"
    )
    assert promoted(beside) == {"b": "lab"}


def test_a_room_that_is_not_known_takes_nobody_and_says_why() -> None:
    lab = replace(room("lab", size=8), trouble="what is free on lab is not known: not allowed")
    kueue = replace(room("kueue", queues=True), trouble="cluster kueue does not answer")

    alone = plan_promotions([run("a", 2), run("b", 16)], [lab], [])
    beside = plan_promotions([run("a", 2)], [lab, kueue], [])
    answers = plan_promotions([run("a", 2)], [lab, room("east", 8)], [])

    assert waiting(alone)["a"].reason == (
        "needs 2 GPUs: what is free on lab is not known: not allowed"
    )
    assert waiting(alone)["b"].reason == "no cluster has 16 GPUs, free or not"
    assert waiting(beside)["a"].reason == (
        "needs 2 GPUs: what is free on lab is not known: not allowed, cluster kueue does not answer"
    )
    assert promoted(answers) == {"a": "east"}
