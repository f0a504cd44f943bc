"""Admission: every reason at once, with warnings, requests and capacity apart from refusals."""

from dataclasses import replace

import pytest

from runtime.admission import Snapshot, UserLimits, admission_warnings, capacity_problem
from runtime.cluster import GpuOffer
from runtime.secret_rules import secret_problems
from tests.runtime.admitting import FULL, NODES, READY, codes, local, made, on
from tests.runtime.judging import profile_of

NIXL = '[inference]\n[weight_broadcast]\ntype = "nixl"'


def test_every_reason_is_told_at_once() -> None:
    profile = local()
    plan = made(profile, extra='gpu_type = "H200_141GB"', taskset="unknown-tasks")

    assert codes(plan, profile, FULL) == ["gpu_type", "model", "taskset"]


def test_reasons_of_user_cluster_and_file_come_together() -> None:
    profile = profile_of(shared_storage=False, max_gpus_per_run=8)
    plan = made(profile, deployment=NODES.format(train=1), extra='image_tag = "a b"\nvolume = "v"')

    found = codes(plan, profile, READY, UserLimits(num_queued=12, balance_usd=-1.0))

    assert found == ["gpu_cap", "image_tag", "queued_runs", "wallet", "storage", "volume"]


def test_a_free_run_needs_no_balance() -> None:
    profile = local()

    assert codes(made(profile), profile, READY, UserLimits(balance_usd=0.0)) == []


def test_a_run_that_has_no_price_is_refused_for_that_and_not_for_the_wallet() -> None:
    profile = local()
    plan = made(profile, extra='gpu_type = "H200_141GB"')

    assert codes(plan, profile, READY, UserLimits(balance_usd=0.0)) == ["gpu_type"]


@pytest.mark.parametrize(
    ("taskset", "spec"),
    [
        ("my-env", "my-env==1.2"),
        ("my_env", "my-env[extra]>=1"),
        ("me/my-env@0.1.0", "git+https://git.example/me/my-env.git@v1"),
        ("my-env", "my-env @ git+https://git.example/me/other.git"),
        ("my-env", "me/my-env"),
    ],
)
def test_a_requested_environment_counts_as_there(taskset: str, spec: str) -> None:
    profile = profile_of()
    snapshot = Snapshot(
        model_path="m", tasksets=frozenset(), num_free_gpus={}, requested_environments=(spec,)
    )

    assert on(profile, snapshot, taskset=taskset) == []


def test_the_local_target_installs_no_requested_environment() -> None:
    profile = local()
    snapshot = Snapshot(
        model_path="m",
        tasksets=frozenset(),
        num_free_gpus={"CPU": 8},
        requested_environments=("mine",),
    )

    assert on(profile, snapshot, taskset="mine") == ["taskset"]


def test_an_environment_outside_an_open_list_is_a_warning() -> None:
    profile = profile_of(environments_closed=False)
    plan = made(profile, taskset="mine")

    (warning,) = admission_warnings(plan, profile, READY)

    assert "taskset mine" in warning


def test_a_requested_environment_that_is_not_installed_is_a_warning() -> None:
    profile = local()
    snapshot = replace(READY, requested_environments=("my-env==1.2",))

    (warning,) = admission_warnings(made(profile), profile, snapshot)

    assert warning.startswith("environments: not installed on cluster local")


def test_what_only_a_cluster_can_place_is_a_warning_without_one() -> None:
    (warning,) = admission_warnings(made(more=NIXL))

    assert warning.startswith("weight_broadcast.host: nixl needs a ModelExpress server")


def test_the_cheapest_type_with_enough_nodes_is_picked() -> None:
    offers = (
        GpuOffer(name="A100_80GB", num_nodes=2, gpus_per_node=16, price_usd_per_hour=1.0),
        GpuOffer(name="H100_80GB", num_nodes=4, gpus_per_node=8, price_usd_per_hour=2.0),
        GpuOffer(name="H200_141GB", num_nodes=4, gpus_per_node=8, price_usd_per_hour=3.0),
    )
    profile = profile_of(gpus=offers)

    plan = made(profile, deployment=NODES.format(train=3))

    assert plan.pool.gpu_type == "H100_80GB"
    assert codes(plan, profile, READY) == []


def test_secret_rules_have_one_code() -> None:
    found = secret_problems({"PATH": "x", "1A": "x", "BIG": "x" * 40_000})

    assert [problem.code for problem in found] == ["secret"] * 3


def test_lack_of_free_slots_is_told_apart_from_refusals() -> None:
    problem = capacity_problem(made(local()), FULL)

    assert problem is not None
    assert problem.code == "capacity"
    assert "needs 2 CPU slots, 1 are free" in problem.message
