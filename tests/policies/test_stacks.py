"""The policy pack on the project's own program: its cluster, volume and run stacks hold to it."""

import json
import os
from pathlib import Path

import pytest

from runtime.toolchain import engine_environment
from tests.toolchain.conftest import Project

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PACK = ("--policy-pack", str(ROOT / "policies"))
STACKS = {
    "here": {"kind": "cluster", "slots": 2},
    "data": {"kind": "volume", "cluster": "here"},
    "run-123": {"kind": "run", "cluster": "here", "config": "rl.toml"},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project directory of its own around the program, with its cluster up."""
    folder = tmp_path_factory.mktemp("stacks")
    for name in ("backend", "home", "model", "project/stacks"):
        (folder / name).mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")  # as much as a preview looks at
    toml = (ROOT / "examples" / "demo.toml").read_text()
    model = f'name = "{folder / "model"}"'
    toml = toml.replace('name = "paddock/tiny-reverse-text"', model)
    (folder / "project" / "rl.toml").write_text(toml)
    program = (ROOT / "Pulumi.yaml").read_text()
    program = program.replace("main: infra/", f"main: {ROOT / 'infra'}")
    program = program.replace("virtualenv: .venv", f"virtualenv: {ROOT / '.venv'}")
    (folder / "project" / "Pulumi.yaml").write_text(program)
    settings = {
        "PULUMI_BACKEND_URL": (folder / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "only-for-this-test",
        "PULUMI_HOME": str(folder / "pulumi-home"),
        "PADDOCK_HOME": str(folder / "home"),
    }
    project = Project(
        directory=folder / "project", environment={**engine_environment(os.environ), **settings}
    )
    for stack, values in STACKS.items():
        project.run("stack", "init", stack, "--no-select")
        file = folder / "project" / "stacks" / f"Pulumi.{stack}.yaml"
        lines = [f"  paddock:{key}: {value}\n" for key, value in values.items()]
        file.write_text(file.read_text() + "config:\n" + "".join(lines))
    project.run("up", "--yes", "--skip-preview", "--stack", "here", *PACK)
    return project


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_of_the_program_holds_to_the_rules(project: Project, stack: str) -> None:
    output = project.run("preview", "--stack", stack, *PACK)

    assert "paddock@v" in output
    assert "mandatory" not in output


def test_a_lowered_cap_refuses_the_run(project: Project, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"gpu-cap": {"maxGpusPerRun": 1}}))
    pack = (*PACK, "--policy-pack-config", str(config))

    output = project.run("preview", "--stack", "run-123", *pack, expect=None)

    assert "2 GPUs, over the cap of 1" in output
    assert "preview failed" in output
