"""`prime train FILE` against the API: what it dispatches, and what it tells of a refusal."""

import json
import shutil
from pathlib import Path

import pytest

from runtime.control.store.run_lists import RunFilter, list_runs
from tests.runtime.control.api.fakes import FakeDispatcher
from tests.runtime.control.api.server import ApiServer
from tests.runtime.control.prime.client import Prime

pytestmark = pytest.mark.control

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "examples" / "reverse-text.toml"
LARGE = 'type = "multi_node"\nnum_train_nodes = 20\nnum_infer_nodes = 20'


def num_runs(api: ApiServer) -> int:
    """Return how many runs were made."""
    with api.store.read() as connection:
        return list_runs(connection, RunFilter(), limit=1).total


def test_the_seeds_example_is_dispatched(api: ApiServer, prime: Prime) -> None:
    said = prime("train", str(EXAMPLE), "-y")

    assert said.code == 0, said.out + said.err
    with api.store.read() as connection:
        (run,) = list_runs(connection, RunFilter(), limit=2).runs
    assert f"Dispatched hosted run {run.run_id}" in said.out
    assert f"{prime.url}/dashboard/training/{run.run_id}" in said.out
    assert "$2.50/GPU-hr" in said.out
    assert run.num_gpus == 2
    assert run.name == "reverse-text-hosted"
    assert "max_steps = 100" in run.config_text


def test_the_multi_node_example_is_dispatched(api: ApiServer, prime: Prime) -> None:
    said = prime("train", str(ROOT / "examples" / "multi-node.toml"), "-y", "-o", "json")

    assert said.code == 0, said.out + said.err
    assert api.stored(json.loads(said.out)["run"]["runId"]).num_gpus == 32


def test_flags_and_secrets_reach_the_dispatcher(api: ApiServer, prime: Prime) -> None:
    words = ["-e", "WANDB_API_KEY=w-canary", "--volume", "vol-a", "--image-tag", "v0.5.1"]

    said = prime("train", str(EXAMPLE), "-y", "-o", "json", *words, "--gpu-type", "H200_141GB")

    assert said.code == 0, said.out + said.err
    run = json.loads(said.out)["run"]
    assert (run["gpuType"], run["pricePerGpuHour"]) == ("H200_141GB", 2.5)
    dispatcher = api.services.dispatcher
    assert isinstance(dispatcher, FakeDispatcher)
    (request,) = dispatcher.seen
    assert request.secrets == {"WANDB_API_KEY": "w-canary"}
    assert (request.volume, request.image_tag) == ("vol-a", "v0.5.1")
    volumes = json.loads(prime("volumes", "list", "-o", "json").out)
    assert [found["name"] for found in volumes] == ["vol-a"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "[[orchestrator.train.source]]",
            "[[orchestrator.train.env]]\nid = 'x'\n[[orchestrator.train.source]]",
            "config.orchestrator.train.env: unknown key env",
        ),
        ("max_steps = 100", 'max_steps = "x"', "config.max_steps: "),
        ("num_train_gpus = 1\nnum_infer_gpus = 1", LARGE, "Error: deployment: 160 trainer"),
    ],
)
def test_a_refusal_is_told_by_field_and_makes_nothing(
    api: ApiServer, prime: Prime, old: str, new: str, words: str
) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    path = prime.home / "rl.toml"
    path.write_text(text.replace(old, new))

    said = prime("train", str(path), "-y")

    assert said.code == 1
    assert words in said.out
    assert "Traceback" not in said.out + said.err
    assert num_runs(api) == 0


def test_sft_is_refused_before_a_question_is_asked(api: ApiServer, prime: Prime) -> None:
    path = prime.home / "sft.toml"
    path.write_text('max_steps = 3\n[data]\nname = "x"\n')

    said = prime("train", str(path))

    assert said.code == 1
    assert "not served" in said.out
    assert num_runs(api) == 0


def test_validate_names_the_command_that_does_it(prime: Prime) -> None:
    path = shutil.copy(EXAMPLE, prime.home / "rl.toml")

    said = prime("train", "validate", str(path))

    assert said.code == 1
    assert "paddock plan" in said.out


def test_a_wrong_key_is_told(prime: Prime) -> None:
    stranger = Prime(
        program=prime.program, url=f"{prime.url}/api/v1/", token="pdk_wrong", home=prime.home
    )

    said = stranger("train", "list")

    assert said.code == 1
    assert "unauthorized" in said.out
