"""The clusters that a control plane serves, and what is told of one that is away."""

from types import SimpleNamespace
from typing import cast

from runtime.control.places import Clusters
from runtime.control.run_places import ClusterPlaces
from tests.runtime.control.reconciling.fakes import profile_of


def test_a_cluster_that_was_never_reached_has_no_room_and_says_so() -> None:
    profiles = {"east": profile_of("east")}
    clusters = cast("Clusters", SimpleNamespace(profiles=lambda: profiles))

    [room] = ClusterPlaces(clusters).rooms()

    assert (room.cluster, room.nodes) == ("east", ())
    assert room.trouble == "cluster east does not answer"
