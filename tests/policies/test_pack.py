"""The policy pack on the real engine: `pulumi preview --policy-pack policies`."""

import json
import os
import shutil
from pathlib import Path

import pytest

from runtime.toolchain import engine_environment
from tests.toolchain.conftest import Project

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PACK = str(ROOT / "policies")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project with an empty stack run-123; previews leave it as it is."""
    folder = tmp_path_factory.mktemp("policies")
    shutil.copytree(ROOT / "tests" / "data" / "policies" / "project", folder / "project")
    (folder / "backend").mkdir()
    settings = {
        "PULUMI_BACKEND_URL": (folder / "backend").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "only-for-this-test",
        "PULUMI_HOME": str(folder / "pulumi-home"),
    }
    project = Project(
        directory=folder / "project", environment={**engine_environment(os.environ), **settings}
    )
    project.run("stack", "init", "run-123")
    return project


@pytest.mark.parametrize("case", ["", "volume"])
def test_a_stack_that_holds_to_the_rules_passes(project: Project, case: str) -> None:
    output = project.run("preview", "--policy-pack", PACK, CASE=case)

    assert "paddock@v0.1.0" in output
    assert "mandatory" not in output
    assert "advisory" not in output


@pytest.mark.parametrize(
    ("case", "rule", "message"),
    [
        ("gpu-cap", "gpu-cap", "65 GPUs, over the cap of 64"),
        ("identity", "run-identity", "runId must be the stack's name, run-123"),
        ("unknown-attempt", "run-identity", "attempt must be a number from 1, known at preview"),
        ("attempt", "one-run-spec", "attempt differs"),
        ("loose", "depends-on-run-spec", "add it to depends_on"),
        ("labels", "run-labels", "missing or not the run's"),
        ("credential", "no-literal-credential", "spec.containers.0.env.0: HF_TOKEN"),
        ("volume-bare", "volume-protected", "declare it with protect=True"),
    ],
)
def test_a_preview_fails_where_a_rule_is_broken(
    project: Project, case: str, rule: str, message: str
) -> None:
    output = project.run("preview", "--policy-pack", PACK, expect=None, CASE=case)

    assert "preview failed" in output
    assert f"[mandatory]  {rule} " in output
    assert message in output
    assert "hunter2" not in output


def test_a_second_attempt_of_a_live_run_passes(project: Project) -> None:
    pack = ("--policy-pack", PACK)
    project.run("up", "--yes", "--skip-preview", *pack)

    preview = project.run("preview", *pack, ATTEMPT="2")
    project.run("up", "--yes", "--skip-preview", *pack, ATTEMPT="2")
    mixed = project.run("preview", *pack, expect=None, ATTEMPT="2", CASE="attempt")
    project.run("destroy", "--yes", ATTEMPT="2")

    assert "to update" in preview
    assert "attempt differs" in mixed


def test_the_cap_can_be_lowered_and_not_raised(project: Project, tmp_path: Path) -> None:
    def preview(cap: int, case: str) -> str:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"gpu-cap": {"maxGpusPerRun": cap}}))
        pack = ("--policy-pack", PACK, "--policy-pack-config", str(config))
        return project.run("preview", *pack, expect=None, CASE=case)

    lowered = preview(4, "")
    raised = preview(100, "gpu-cap")

    assert "8 GPUs, over the cap of 4" in lowered
    assert "maxGpusPerRun" in raised
    assert "error" in raised
