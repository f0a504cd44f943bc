"""The example configs: accepted, and resolved to what prime-rl's launcher writes."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.config import RLConfig, load_config
from tests.runtime.config.examples import DATA, MINIMAL, refusal, rows

INDEX = rows("configs/index.jsonl")
LAUNCHER_KEYS = {"deployment", "slurm", "output_dir", "dry_run"}  # not in prime-rl's inference.json

OF_A_PACKAGE = ("env.taskset.", ".harness.", "env.invalid_retries")
"""Defaults of tasksets, harnesses and environments, which only their packages know."""

OF_THE_RUN = ("output_dir", "monitors.wandb.name")
"""Hold the run's name, which prime-rl makes from a random number where the file has none."""

WRONG_WORLD_SIZE = "weight_broadcast.inference_world_size"
"""prime-rl counts one engine where a single node has several, and then waits for ever."""


def text_of(row: dict[str, Any]) -> str:
    return (DATA / row["file"]).read_text()


def resolved_of(row: dict[str, Any]) -> dict[str, Any]:
    name = row["file"].split("/")[-1].removesuffix(".toml")
    return json.loads((DATA / "resolved" / f"{name}.json").read_text())


def differences(
    theirs: object, ours: object, path: str = ""
) -> Iterator[tuple[str, object, object]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() | ours.keys():
            yield from differences(theirs.get(key, "-"), ours.get(key, "-"), f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, pair in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(pair[0], pair[1], f"{path}[{index}]")
    elif theirs != ours:
        yield path, theirs, ours


def dumps(config: RLConfig) -> dict[str, Any]:
    found = {
        "trainer.json": config.trainer.model_dump(mode="json"),
        "orchestrator.json": config.orchestrator.model_dump(mode="json"),
    }
    if config.inference is not None:
        found["inference.json"] = config.inference.model_dump(mode="json", exclude=LAUNCHER_KEYS)
    return found


@pytest.mark.parametrize("row", INDEX, ids=[row["file"].split("/")[-1] for row in INDEX])
def test_an_example_is_accepted_unless_it_wipes(row: dict[str, Any]):
    error = refusal(text_of(row))

    if "clean" in row["expect"]:
        assert error is not None
        assert "clean" in [problem.path for problem in error.problems]
    else:
        assert error is None, error


@pytest.mark.parametrize("row", INDEX, ids=[row["file"].split("/")[-1] for row in INDEX])
def test_an_example_resolves_to_what_prime_rl_writes(row: dict[str, Any]):
    text = text_of(row).replace("clean = true", "")
    if 'type = "mooncake"' in text:
        text = text.replace("[inference.kv_cache_offload", "[inference.vllm.kv_cache_offload")
    theirs = resolved_of(row)
    config = load_config(text, secret_names=frozenset({"WANDB_API_KEY"})).config

    found = dumps(config)

    assert set(found) == {name for name in theirs if not name.startswith("envs/")}
    for name, ours in found.items():
        for path, expected, value in differences(theirs[name], ours):
            if any(part in path for part in OF_A_PACKAGE + OF_THE_RUN):
                continue
            if path.endswith(WRONG_WORLD_SIZE):
                assert value == config.deployment.total_infer_gpus
            elif path == ".router":
                assert config.deployment.type == "multi_node", "the launcher starts it by itself"
            else:
                assert "mooncake" in text_of(row), (name, path, expected, value)
                assert "kv_cache_offload" in path or "prefix_caching" in path, path


@pytest.mark.parametrize("row", INDEX, ids=[row["file"].split("/")[-1] for row in INDEX])
def test_an_example_has_the_counts_of_the_index(row: dict[str, Any]):
    if "clean" in row["expect"]:
        return
    config = load_config(text_of(row)).config
    vllm = config.inference.vllm if config.inference else None
    derived = row["derived"]

    assert row["deployment"].items() <= config.deployment.model_dump().items()
    assert config.deployment.total_train_gpus + config.deployment.total_infer_gpus == row["gpus"]
    assert vllm is None or vllm.tensor_parallel_size == derived["infer_tp"]
    assert vllm is None or vllm.data_parallel_size == derived.get("infer_dp", 1)


def test_a_component_reads_its_resolved_file_back():
    config = load_config(text_of(INDEX[1])).config

    for component in (config.trainer, config.orchestrator, config.inference):
        assert component is not None
        text = component.model_dump_json()
        assert type(component).model_validate_json(text).model_dump_json() == text


def test_loading_leaves_no_trace_in_the_models():
    plain = load_config(MINIMAL).config.model_dump_json()

    for row in INDEX:
        refusal(text_of(row))

    assert load_config(MINIMAL).config.model_dump_json() == plain


def test_a_run_without_a_name_is_named_after_its_sources_and_model():
    loaded = load_config(MINIMAL)

    assert loaded.config.run.name == f"reverse-text--qwen3-0.6b--{loaded.digest[:8]}"
    assert loaded.dispatch.name == loaded.config.run.name
