"""Every code of admission: a config that gets it alone, and its neighbours that get none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.admission import Code, UserLimits
from tests.runtime.admitting import (
    MISSING,
    NODES,
    READY,
    TOKEN,
    codes,
    local,
    made,
    of,
    on,
    starting_with,
)
from tests.runtime.judging import profile_of

DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design.md"
Case = Callable[[], list[str]]
LLMD = (
    '[inference.router]\ntype = "llm-d"\n[inference.deployment]\ntype = "multi_node"\nnum_nodes = 2'
)
TWO_NODES = 'type = "multi_node"\nnum_train_nodes = 1'
NIXL = '[inference]\n[weight_broadcast]\ntype = "nixl"'
LLAMA = "meta-llama/Llama-3.2-1B"

TABLE: list[tuple[str, str, Case]] = [
    ("platform's cap", "gpu_cap", lambda: codes(made(deployment=NODES.format(train=8)))),
    (
        "cluster's cap",
        "gpu_cap",
        lambda: on(profile_of(max_gpus_per_run=8), deployment=NODES.format(train=1)),
    ),
    ("user's cap", "gpu_cap", lambda: of(UserLimits(max_gpus_per_run=1))),
    ("type that is none", "gpu_type", lambda: codes(made(extra='gpu_type = "H100x8"'))),
    ("type of elsewhere", "gpu_type", lambda: on(profile_of(), extra='gpu_type = "B200_180GB"')),
    (
        "node too small",
        "too_big",
        lambda: on(profile_of(), deployment="gpus_per_node = 16\nnum_train_gpus = 15"),
    ),
    (
        "nodes too few",
        "too_big",
        lambda: on(profile_of(), deployment=NODES.format(train=4), extra='gpu_type = "H200_141GB"'),
    ),
    (
        "local nodes",
        "deployment",
        lambda: on(local(num_nodes=2), deployment=f"{NODES.format(train=1)}\ngpus_per_node = 2"),
    ),
    (
        "local without engines",
        "inference",
        lambda: on(
            local(),
            deployment="num_infer_gpus = 0",
            more='[orchestrator.model.client]\nbase_url = "http://policy.example/v1"',
        ),
    ),
    ("llm-d", "unplaced", lambda: on(profile_of(), deployment=TWO_NODES, more=LLMD)),
    ("nixl without its server", "unplaced", lambda: on(profile_of(), more=NIXL)),
    (
        "pipeline stages",
        "unplaced",
        lambda: codes(made(more="[inference.vllm]\npipeline-parallel-size = 2")),
    ),
    (
        "two sockets on one port",
        "ports",
        lambda: codes(made(more='[inference]\n[weight_broadcast]\ntype = "nccl"\nport = 29500')),
    ),
    (
        "a port over the last",
        "ports",
        lambda: codes(
            made(
                deployment="num_infer_gpus = 4",
                more="[inference]\nbackend_port = 65533",
            )
        ),
    ),
    ("tag with a slash", "image_tag", lambda: codes(made(extra='image_tag = "a/b:main"'))),
    ("tag too long", "image_tag", lambda: codes(made(extra=f'image_tag = "{"a" * 129}"'))),
    ("not cached", "model", lambda: on(profile_of(model_download=False), MISSING)),
    ("path that is not there", "model", lambda: on(profile_of(), MISSING, model="/models/x")),
    ("volume not passed", "model", lambda: on(profile_of(), MISSING, model="/volume/x")),
    ("gated", "gated_model", lambda: on(profile_of(), MISSING, model=LLAMA)),
    (
        "gated here",
        "gated_model",
        lambda: on(profile_of(gated_models=("some/",)), MISSING),
    ),
    ("volume unknown", "volume", lambda: on(profile_of(), extra='volume = "scrtch"')),
    (
        "no shared storage",
        "storage",
        lambda: on(profile_of(shared_storage=False), deployment=NODES.format(train=1)),
    ),
    (
        "a volume of one node",
        "storage",
        lambda: on(profile_of().on_volume(False), deployment=NODES.format(train=1)),
    ),
    ("closed list", "taskset", lambda: on(profile_of(), taskset="revrese-text")),
    ("local list", "taskset", lambda: on(local(), taskset="unknown-tasks")),
    (
        "teacher on loopback",
        "endpoint",
        lambda: on(
            profile_of(),
            more='[inference]\n[orchestrator.algo]\ntype = "opd"\n[orchestrator.algo.teacher]\n'
            'name = "t"\nbase_url = "http://localhost:8001/v1"',
        ),
    ),
    ("no checkpoint to start with", "resume_from", lambda: starting_with(())),
    ("no step left to train", "resume_from", lambda: starting_with((4, 10))),
    ("full queue", "queued_runs", lambda: of(UserLimits(num_queued=10))),
    ("empty wallet", "wallet", lambda: of(UserLimits(balance_usd=0.0))),
    ("switched off", "on_demand", lambda: of(UserLimits(has_on_demand=False))),
]


@pytest.mark.parametrize(
    ("code", "case"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_a_reason_has_its_code(code: str, case: Case) -> None:
    assert case() == [code]


ACCEPTED: list[tuple[str, Case]] = [
    ("a checkpoint with steps to go", lambda: starting_with((4, 9))),
    ("an earlier checkpoint", lambda: starting_with((4, 10), "run-before:4")),
    ("a run that fits", lambda: on(local())),
    ("a run on a cluster", lambda: on(profile_of())),
    ("exactly 64 GPUs", lambda: codes(made(deployment=NODES.format(train=7)))),
    ("a model that is downloaded", lambda: on(profile_of(), MISSING)),
    ("a gated model with its token", lambda: on(profile_of(), TOKEN, model=LLAMA)),
    ("a gated model that is cached", lambda: on(profile_of(), READY, model=LLAMA)),
    ("a known volume", lambda: on(profile_of(), extra='volume = "scratch"')),
    ("any volume where none is listed", lambda: on(profile_of(volumes=None), extra='volume = "v"')),
    (
        "a shared volume where the cluster's own is not",
        lambda: on(
            profile_of(shared_storage=False).on_volume(True), deployment=NODES.format(train=1)
        ),
    ),
    (
        "a volume of an older stack, which does not say",
        lambda: on(profile_of().on_volume(None), deployment=NODES.format(train=1)),
    ),
    ("nixl with a server", lambda: on(profile_of(model_express="mx.runs"), more=NIXL)),
    ("nixl by host", lambda: on(profile_of(), more=f'{NIXL}\nhost = "mx.example"')),
    ("llm-d without a cluster", lambda: codes(made(deployment=TWO_NODES, more=LLMD))),
    ("a pinned digest", lambda: codes(made(extra=f'image_tag = "v1@sha256:{"0" * 64}"'))),
    ("an open list", lambda: on(profile_of(environments_closed=False), taskset="mine")),
    ("nine queued runs and a dollar", lambda: of(UserLimits(num_queued=9, balance_usd=1.0))),
]


@pytest.mark.parametrize("case", [row[1] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_what_can_run_is_not_refused(case: Case) -> None:
    assert case() == []


def test_the_table_covers_every_code_and_the_document_names_each() -> None:
    document = DESIGN.read_text()

    assert {row[1] for row in TABLE} == set(Code) - {Code.CAPACITY}
    assert [code for code in Code if f"| `{code}` |" not in document] == []
