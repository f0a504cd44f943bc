"""Split files and commands of a local run: addresses, harness, paths, resume."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runtime.artifacts import RunDirectory
from runtime.cluster import ClusterProfile, GpuOffer, LocalConnection
from runtime.config import load_config
from runtime.launch.first_checkpoint import MissingError
from runtime.launch.local import LocalComponent, num_local_ports, prepare_local
from runtime.launch.split import local_notices
from runtime.plan import RunPlan, build_plan

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROFILE = ClusterProfile(
    name="local",
    gpus=(GpuOffer(name="CPU", num_nodes=1, gpus_per_node=8, price_usd_per_hour=0.0),),
    connection=LocalConnection(state_path="/state", cache_path="/cache"),
    runs_path="/runs",
)


def prepare(
    tmp_path: Path,
    text: str,
    *,
    attempt: int = 1,
    null_harness: str = "in-process",
    resume_from: str | None = None,
) -> tuple[RunDirectory, RunPlan, tuple[LocalComponent, ...]]:
    loaded = load_config(text)
    plan = build_plan(
        loaded, run_id="run-1", attempt=attempt, profile=PROFILE, null_harness=null_harness
    )
    plan = replace(plan, resume_from=resume_from)
    run = RunDirectory(tmp_path)
    run.configs.mkdir(exist_ok=True)
    run.toml.write_text(text)
    devices = ("",) * plan.num_gpus
    return run, plan, prepare_local(run, plan, base_port=21000, devices=devices)


def example() -> str:
    return (EXAMPLES / "demo.toml").read_text()


def read(run: RunDirectory, name: str) -> dict:
    return json.loads((run.configs / name).read_text())


def test_the_orchestrator_gets_the_real_addresses(tmp_path: Path) -> None:
    run, plan, components = prepare(tmp_path, example())

    orchestrator = read(run, "orchestrator.json")
    ports = {component.name: component.ports for component in components}
    assert num_local_ports(plan) == sum(len(ports) for ports in ports.values())
    engine = f"http://127.0.0.1:{ports['inference-0'][0]}/v1"
    assert orchestrator["model"]["client"]["admin_base_url"] == [engine]
    env_port = ports["env-train-reverse-text"][0]
    source = orchestrator["train"]["source"][0]
    assert source["serve"]["address"] == f"tcp://127.0.0.1:{env_port}"
    env = read(run, "envs/train/reverse-text.json")
    assert env["serve"]["address"] == source["serve"]["address"]


def test_all_components_share_the_run_directory_and_the_file_transports(tmp_path: Path) -> None:
    run, _, _ = prepare(tmp_path, example())

    for name in ("trainer.json", "orchestrator.json"):
        content = read(run, name)
        assert content["output_dir"] == str(tmp_path)
        assert content["weight_broadcast"] == {"type": "filesystem"}
        assert content["rollout_transport"] == {"type": "filesystem"}


@pytest.mark.parametrize(
    ("setting", "harness"), [("in-process", "inproc-null"), ("subprocess", "null")]
)
def test_the_null_harness_is_replaced_unless_the_setting_keeps_it(
    tmp_path: Path, setting: str, harness: str
) -> None:
    run, plan, _ = prepare(tmp_path, example(), null_harness=setting)

    env = read(run, "envs/train/reverse-text.json")
    assert env["env"]["agent"]["harness"]["id"] == harness
    said = any(
        "harness null" in notice for notice in local_notices(load_config(example()).config, plan)
    )
    assert said is (setting == "in-process")


def test_a_later_attempt_resumes_from_the_last_complete_checkpoint(tmp_path: Path) -> None:
    for name in ("checkpoints/step_50", "checkpoints/step_100", "checkpoints/.step_150.tmp"):
        (tmp_path / name).mkdir(parents=True)
    for step in (99, 100, 101):
        (tmp_path / f"rollouts/step_{step}").mkdir(parents=True)

    run, _, _ = prepare(tmp_path, example(), attempt=2)

    assert read(run, "trainer.json")["resume"] == {"step": None, "dir": None}
    kept = sorted(path.name for path in run.rollouts.iterdir())
    assert kept == ["step_100", "step_99"]


def with_steps(run: Path, *steps: int) -> None:
    for step in steps:
        folder = run / f"checkpoints/step_{step}/trainer"
        folder.mkdir(parents=True)
        (folder / "weights").write_text(f"{run.name} {step}")


def test_a_run_starts_with_the_last_checkpoint_of_another(tmp_path: Path) -> None:
    with_steps(tmp_path / "run-0", 20, 40)
    (tmp_path / "run-1").mkdir()

    run, _, _ = prepare(tmp_path / "run-1", example(), resume_from="run-0")

    assert read(run, "trainer.json")["resume"] == {"step": None, "dir": None}
    assert read(run, "orchestrator.json")["resume"] == {"step": None, "dir": None}
    assert [path.name for path in run.checkpoints.iterdir()] == ["step_40"]
    assert (run.checkpoints / "step_40/trainer/weights").read_text() == "run-0 40"


def test_a_later_attempt_goes_on_from_the_run_s_own_checkpoint(tmp_path: Path) -> None:
    with_steps(tmp_path / "run-1", 60)

    run, _, _ = prepare(tmp_path / "run-1", example(), attempt=2, resume_from="run-0:40")

    assert [path.name for path in run.checkpoints.iterdir()] == ["step_60"]


def test_a_checkpoint_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with_steps(tmp_path / "run-0", 20, 40)
    (tmp_path / "run-1").mkdir()

    with pytest.raises(MissingError, match=r"no checkpoint of step 30; it has those of 20, 40"):
        prepare(tmp_path / "run-1", example(), resume_from="run-0:30")


def test_a_first_attempt_starts_without_stale_steps(tmp_path: Path) -> None:
    (tmp_path / "broadcasts/step_7").mkdir(parents=True)

    run, _, _ = prepare(tmp_path, example())

    assert read(run, "trainer.json")["resume"] is None
    assert not list(run.broadcasts.iterdir())


def test_components_see_nothing_of_the_callers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "canary")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")

    _, _, components = prepare(tmp_path, example())

    assert all("canary" not in component.env.values() for component in components)
    assert all(component.env["PADDOCK_ATTEMPT"] == "1" for component in components)


def test_two_engines_are_two_admin_urls_in_rank_order(tmp_path: Path) -> None:
    text = example().replace("num_infer_gpus = 1", "num_infer_gpus = 2")

    run, _, components = prepare(tmp_path, text)

    ports = [one.ports[0] for one in components if one.role == "inference"]
    urls = read(run, "orchestrator.json")["model"]["client"]["admin_base_url"]
    assert urls == [f"http://127.0.0.1:{port}/v1" for port in ports]
