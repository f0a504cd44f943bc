"""resolve.py: hosted spellings one at a time, and what goes into prime-rl's own split files."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from runtime.config import LoadedConfig, load_config
from runtime.config.dispatch import _CLIENT_KEYS, _TEXT_KEYS
from runtime.config.spellings import SPELLINGS
from runtime.launch import resolve
from runtime.launch.components import build_components
from runtime.launch.pods import launch_document
from runtime.plan import RunPlan, build_plan

DATA = Path(__file__).parents[2] / "data/prime-rl"
CONFIGS = sorted([*DATA.glob("configs/*.toml"), *DATA.glob("configs/prime-rl/*.toml")])
Json = dict[str, Any]


def loaded(path: Path) -> LoadedConfig:
    """Return a config without the two things that admission refuses in one of the files."""
    text = path.read_text().replace("clean = true", "")
    text = re.sub(r"\[inference\.kv_cache_offload\][^\[]*mooncake.*", "", text, flags=re.DOTALL)
    return load_config(text, allow_unknown_fields=True)


def launch_of(config: LoadedConfig, *, attempt: int = 1) -> tuple[RunPlan, Json]:
    plan = build_plan(config, run_id="run-one", attempt=attempt)
    return plan, launch_document(plan, config.config, build_components(plan))


def resolved(path: Path) -> dict[str, Json]:
    return json.loads((DATA / "resolved" / f"{path.stem}.json").read_text())


def changes(before: object, after: object, path: str = "") -> dict[str, object]:
    """Return the new value of every leaf, or list, that differs."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        found: dict[str, object] = {}
        for key in before:
            found |= changes(before[key], after[key], f"{path}.{key}".lstrip("."))
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        found = {}
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            found |= changes(left, right, f"{path}[{index}]")
        return found
    return {} if before == after else {path: after}


ALLOWED = re.compile(
    r"output_dir|weight_broadcast\.(host|port|inference_world_size)|rollout_transport\.(host|port)"
    r"|model\.client\.(base_url|admin_base_url(\[\d+\])?)|inference_metrics_roles|num_train_workers|router"
    r"|(train|eval)\.source\[\d+\]\.serve\.address|serve\.address|monitors\.file\.path"
)


def test_the_tables_are_those_of_the_configuration() -> None:
    assert [(one.hosted, one.native) for one in SPELLINGS] == list(resolve.SPELLINGS)
    assert set(resolve.DISPATCH_KEYS) == {*_TEXT_KEYS, *_CLIENT_KEYS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_addresses_go_into_prime_rls_own_files_and_nothing_else_changes(path: Path) -> None:
    config = loaded(path)
    plan, launch = launch_of(config)
    files = resolved(path)

    done = resolve.inject(files, launch, None)

    for name in files:
        found = changes(files[name], done[name])
        assert [key for key in found if not ALLOWED.fullmatch(key)] == []
    trainer, orchestrator = done["trainer.json"], done["orchestrator.json"]
    assert trainer["output_dir"] == orchestrator["output_dir"] == "/paddock/run"
    assert trainer["monitors"]["file"]["path"] == "metrics-trainer.jsonl"
    assert orchestrator["monitors"]["file"]["path"] == "metrics.jsonl"
    assert orchestrator["num_train_workers"] == plan.num_train_workers
    client = orchestrator["model"]["client"]
    if plan.num_engines:
        assert client["admin_base_url"] == launch["wiring"]["admin_urls"]
        assert len(client["admin_base_url"]) == plan.num_engines
        assert client["base_url"] == launch["wiring"]["base_url"]
    for part, source in resolve.sources(orchestrator):
        name = f"envs/{part}/{source['name']}.json"
        if name in done:
            host, _, port = source["serve"]["address"].removeprefix("tcp://").rpartition(":")
            assert host.endswith(".run-one-1")
            assert done[name]["serve"]["address"] == f"tcp://0.0.0.0:{port}"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_both_sides_of_the_weights_know_every_rank(path: Path) -> None:
    plan, launch = launch_of(loaded(path))

    done = resolve.inject(resolved(path), launch, None)

    ours, theirs = (
        done[name]["weight_broadcast"] for name in ("trainer.json", "orchestrator.json")
    )
    if ours["type"] == "nccl":
        assert (ours["host"], theirs["host"]) == ("0.0.0.0", "run-one-1-trainer-0-0.run-one-1")
        assert ours["port"] == theirs["port"] == plan.ports.broadcast
        assert ours["inference_world_size"] == plan.inference_world_size
        assert theirs["inference_world_size"] == plan.inference_world_size


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_pod_finds_the_file_that_its_command_reads(path: Path) -> None:
    plan, launch = launch_of(loaded(path))
    files = resolved(path)

    written = resolve.files_to_write(resolve.inject(files, launch, None), launch)

    words = [
        word.removeprefix("/paddock/run/configs/")
        for pod in launch["pods"].values()
        for command in pod["commands"]
        for word in command["argv"]
        if word.startswith("/paddock/run/configs/")
    ]
    assert set(words) == set(written)
    assert len(launch["pods"]) == plan.num_pods


def test_rollouts_are_bound_by_the_orchestrator_and_fetched_by_the_trainer() -> None:
    path = DATA / "configs/seed-qwen30b-math.toml"
    _, launch = launch_of(loaded(path))

    done = resolve.inject(resolved(path), launch, None)

    assert done["orchestrator.json"]["rollout_transport"]["host"] == "0.0.0.0"
    assert (
        done["trainer.json"]["rollout_transport"]["host"] == "run-one-1-orchestrator-0-0.run-one-1"
    )


def test_prefill_and_decode_are_told_in_the_order_of_their_urls() -> None:
    text = (DATA / "corpus/v09-disaggregated.toml").read_bytes()
    config = load_config(text)
    plan, launch = launch_of(config)
    files = {
        "trainer.json": config.config.trainer.model_dump(mode="json"),
        "orchestrator.json": config.config.orchestrator.model_dump(mode="json"),
        **{f"envs/{key}.json": {"serve": {}} for key in launch["wiring"]["env_servers"]},
    }

    done = resolve.inject(files, launch, None)["orchestrator.json"]

    roles, urls = done["inference_metrics_roles"], done["model"]["client"]["admin_base_url"]
    assert roles == ["prefill" if "-prefill-" in url else "decode" for url in urls]
    assert len(urls) == plan.num_engines


def test_a_later_attempt_resumes_from_the_checkpoint_that_is_there() -> None:
    path = DATA / "configs/seed-reverse-text.toml"
    _, launch = launch_of(loaded(path), attempt=2)

    done = resolve.inject(resolved(path), launch, 40)

    for name in ("trainer.json", "orchestrator.json"):
        assert done[name]["resume"] == {"step": 40, "dir": None}


def test_the_trainer_serves_its_health_where_the_run_asks_for_it() -> None:
    path = DATA / "configs/seed-reverse-text.toml"
    _, launch = launch_of(loaded(path))

    done = resolve.inject(resolved(path), {**launch, "trainer_metrics_port": 9000}, None)

    assert done["trainer.json"]["metrics_server"] == {"host": "0.0.0.0", "port": 9000}


def test_sources_that_the_image_names_otherwise_are_refused() -> None:
    path = DATA / "configs/seed-reverse-text.toml"
    _, launch = launch_of(loaded(path))
    files = resolved(path)
    files["envs/train/other.json"] = files.pop("envs/train/reverse-text.json")

    with pytest.raises(resolve.RefusedError, match="give each source a name"):
        resolve.inject(files, launch, None)


class Strict(BaseModel):
    """A stand-in for prime-rl's config, as strict: it knows only the native spellings."""

    model_config = ConfigDict(extra="forbid")

    run: Json = {}
    trainer: Json = {}
    orchestrator: Json = {}
    monitors: Json = {}
    deployment: Json = {}
    slurm: Json | None = None


def validate(table: Json) -> Json:
    Strict.model_validate(table)
    if "group_size" in table.get("orchestrator", {}).get("train", {}):
        raise forbidden("orchestrator", "train", "group_size")
    if table.get("deployment", {}).get("type") == "multi_node" and "slurm" not in table:
        raise ValueError("Must use SLURM for multi-node deployment.")
    return table


def forbidden(*loc: str) -> ValidationError:
    line = {"type": "extra_forbidden", "loc": loc, "input": "canary"}
    return ValidationError.from_exception_data("x", [line])  # pyright: ignore


def test_a_file_that_is_accepted_as_written_stays_as_written() -> None:
    table = {"name": "a", "wandb": {}, "deployment": {"type": "multi_node"}}
    said: list[str] = []

    assert resolve.accept(table, copy.deepcopy, said.append) == table

    assert said == []


def test_only_what_is_refused_is_respelled_and_each_is_said() -> None:
    table = {
        "name": "a",
        "wandb": {"project": "p"},
        "orchestrator": {"train": {"group_size": 8}},
        "deployment": {"type": "multi_node"},
    }
    said: list[str] = []

    config = resolve.accept(table, validate, said.append)

    assert config == {
        "run": {"name": "a"},
        "monitors": {"wandb": {"project": "p"}},
        "orchestrator": {"train": {}, "group_size": 8},
        "deployment": {"type": "multi_node"},
        "slurm": {},
    }
    assert (len(said), table["name"]) == (4, "a")


def test_a_newer_prime_rl_that_knows_a_hosted_key_keeps_it() -> None:
    class Newer(Strict):
        name: str = ""

    said = []

    def accepts_name(table: Json) -> Json:
        Newer.model_validate(table)
        return table

    config = resolve.accept({"name": "a", "wandb": {}}, accepts_name, said.append)

    assert config == {"name": "a", "monitors": {"wandb": {}}}
    assert said == ["wandb: read as prime-rl's monitors.wandb"]


def test_a_refusal_names_the_field_and_no_value() -> None:
    with pytest.raises(resolve.RefusedError) as caught:
        resolve.accept({"trainr": "canary"}, validate, print)

    assert "trainr: Extra inputs are not permitted" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_two_spellings_that_disagree_are_refused() -> None:
    table = {"name": "a", "run": {"name": "b"}}

    with pytest.raises(resolve.RefusedError, match=r"name and run\.name"):
        resolve.accept(table, validate, print)


def test_what_only_the_dispatch_needs_is_not_prime_rls() -> None:
    text = 'image_tag = "main"\ngpu_type = "H200_141GB"\ntype = "rl"\nmax_steps = 3\n'

    assert resolve.load_table("\ufeff" + text) == {"max_steps": 3}


def test_a_broken_file_is_refused_by_its_line() -> None:
    with pytest.raises(resolve.RefusedError, match=r"rl\.toml is no TOML.*line 1"):
        resolve.load_table("a = = 1")


def test_prime_rls_own_classes_read_what_is_written() -> None:
    configs = pytest.importorskip(
        "prime_rl.configs.rl", reason="prime-rl's config package is not installed here"
    )
    for path in CONFIGS:
        _, launch = launch_of(loaded(path))
        table = resolve.load_table(path.read_text())

        config = resolve.accept(table, configs.RLConfig.model_validate, print)
        files = resolve.inject(resolve.split(config), launch, None)

        type(config.trainer).model_validate(files["trainer.json"])
        type(config.orchestrator).model_validate(files["orchestrator.json"])
