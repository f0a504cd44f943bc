"""launch.json: what each pod is told, over every deployment shape."""

import json
from pathlib import Path

import pytest

from runtime.config import load_config
from runtime.launch.components import build_components
from runtime.launch.pods import launch_document, process_notice
from runtime.plan import build_plan
from tests.runtime.deployments import SHAPES, TEXT

EXAMPLES = Path(__file__).parents[3] / "examples"


def document(text: str, *, attempt: int = 1, processes: int | None = None) -> dict:
    loaded = load_config(text)
    plan = build_plan(loaded, run_id="run-one", attempt=attempt)
    components = build_components(plan)
    return launch_document(plan, loaded.config, components, num_processes_per_node=processes)


def multi_node() -> str:
    return (EXAMPLES / "multi-node.toml").read_text()


@pytest.mark.parametrize("name", SHAPES)
def test_every_pod_has_a_command_and_the_document_is_json(name: str) -> None:
    deployment, more, counts = SHAPES[name]

    found = document(TEXT.format(deployment=deployment, more=more))

    assert json.loads(json.dumps(found)) == found
    assert len(found["pods"]) == counts["pods"]
    assert all(pod["commands"] for pod in found["pods"].values())
    for pod in found["pods"].values():
        assert bool(pod["num_gpus"]) == (pod["role"] in {"trainer", "inference"})
    assert found["wiring"]["inference_world_size"] == counts["inference"]
    assert len(found["wiring"]["admin_urls"]) == counts["engines"]


def test_the_trainers_meet_at_the_first_pod() -> None:
    pods = document(multi_node())["pods"]

    argv = pods["trainer-0-1"]["commands"][0]["argv"]

    assert "--node-rank=1" in argv
    assert "--rdzv-endpoint=run-one-1-trainer-0-0.run-one-1:29500" in argv
    assert argv[-2:] == ["@", "/paddock/run/configs/trainer.json"]


def test_trainer_and_orchestrator_log_to_one_wandb_run() -> None:
    pods = document(multi_node())["pods"]

    shared = {key: pod["commands"][0]["env"].get("WANDB_RUN_ID") for key, pod in pods.items()}

    assert {key for key, value in shared.items() if value == "run-one"} == {
        "trainer-0-0",
        "trainer-0-1",
        "orchestrator-0-0",
    }


def test_engines_that_share_experts_get_their_rank_in_a_file() -> None:
    deployment, more, _ = SHAPES["expert parallel"]

    pods = document(TEXT.format(deployment=deployment, more=more))["pods"]

    (path, content), _ = sorted(pods["inference-1-1"]["files"].items())
    assert path == "inference/inference-3_rank0.json"
    assert content["data_parallel_rank"] == 2
    assert content["data_parallel_address"] == "run-one-1-inference-1-0.run-one-1"


def test_a_first_attempt_clears_everything_and_a_later_one_what_is_past_its_checkpoint() -> None:
    first, second = document(multi_node()), document(multi_node(), attempt=2)

    assert (first["resume"], first["clean_past"]) == ("as written", "start")
    assert (second["resume"], second["clean_past"]) == ("last", "last")


@pytest.mark.parametrize(("table", "past"), [("[resume]", "last"), ("[resume]\nstep = 7", 7)])
def test_a_file_that_resumes_keeps_the_steps_before(table: str, past: object) -> None:
    assert document(f"{multi_node()}\n{table}\n")["clean_past"] == past


def test_a_trainer_part_that_lies_elsewhere_is_not_looked_for() -> None:
    text = multi_node() + '\n[ckpt]\noutput_dir = "elsewhere"\n'

    assert document(text)["checkpoint_parts"] == ["orchestrator"]


def test_the_setting_of_tests_changes_processes_and_world_sizes_alone() -> None:
    whole, small = document(multi_node()), document(multi_node(), processes=1)

    assert small["pods"].keys() == whole["pods"].keys()
    assert small["wiring"]["trainer_world_size"] == 2
    assert small["wiring"]["num_train_workers"] == 2
    assert small["wiring"]["inference_world_size"] == 2
    assert "--nproc-per-node=1" in small["pods"]["trainer-0-0"]["commands"][0]["argv"]
    assert "1 process(es)" in process_notice(1)


def test_no_pod_is_told_a_value_of_the_environment() -> None:
    text = multi_node() + '\n[env_vars]\nMY_SETTING = "canary"\n'

    assert "canary" not in json.dumps(document(text))
