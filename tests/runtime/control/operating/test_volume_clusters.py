"""Where a volume is made: on the cluster that is named, else where its runs will likeliest fit."""

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.cluster import GpuOffer
from runtime.control.requests import CreateVolume
from runtime.control.store.store import Store
from runtime.control.volume_stacks import StackVolumes
from runtime.errors import SettingsError
from tests.runtime.control.operating.dispatching import Dispatching
from tests.runtime.judging import profile_of

SHELF = CreateVolume(name="shelf", size="1Ti")


@pytest.fixture
def dispatching(sqlite_store: Store, tmp_path: Path) -> Dispatching:
    """Return the surroundings of a server that serves no cluster yet."""
    return Dispatching(store=sqlite_store, folder=tmp_path)


def made_on(dispatching: Dispatching, request: CreateVolume = SHELF) -> str:
    """Return the cluster that a volume is made on."""
    volumes = StackVolumes(store=dispatching.store, clusters=dispatching.clusters)
    return volumes.create(dispatching.user(), request).cluster


def add_pods(dispatching: Dispatching, name: str, *, num_gpus: int = 8) -> None:
    """Add a cluster of pods."""
    offer = GpuOffer(name="H100_80GB", num_nodes=1, gpus_per_node=num_gpus, price_usd_per_hour=2.5)
    found = profile_of().model_copy(update={"name": name, "gpus": (offer,)})
    dispatching.clusters.found[name] = found


def test_the_cluster_with_the_most_gpus_takes_a_volume(dispatching: Dispatching) -> None:
    for name, num_gpus in {"a-lab": 8, "lab": 16, "z-lab": 4}.items():
        add_pods(dispatching, name, num_gpus=num_gpus)

    assert made_on(dispatching) == "lab"


def test_slots_of_a_machine_come_after_a_cluster_of_pods(dispatching: Dispatching) -> None:
    dispatching.add_cluster("dev", slots=1000)
    add_pods(dispatching, "lab")

    assert made_on(dispatching) == "lab"


def test_the_cluster_that_is_named_takes_it(dispatching: Dispatching) -> None:
    dispatching.add_cluster("dev")
    add_pods(dispatching, "lab")

    assert made_on(dispatching, replace(SHELF, cluster="dev")) == "dev"


@pytest.mark.parametrize("asked", [None, "lab"])
def test_a_cluster_that_is_not_there_takes_none(
    dispatching: Dispatching, asked: str | None
) -> None:
    with pytest.raises(SettingsError, match="cluster: "):
        made_on(dispatching, replace(SHELF, cluster=asked))
