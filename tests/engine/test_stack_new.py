"""`paddock stack new`: a stack and its settings file, all of it or nothing."""

import os
from pathlib import Path

import pytest
import yaml

from tests.engine.recorder import make_recorder
from tests.engine.sites import Site

pytestmark = pytest.mark.engine

CANARY = "canary-2b1e77"


def new(site: Site, run_id: str, *flags: str, expect: int | None = 0, **extra: str) -> str:
    site.write_toml(run_id, "long")
    command = ("stack", "new", run_id, f"{run_id}.toml", *flags)
    return site.paddock(*command, expect=expect, **extra).text


def stacks(site: Site) -> str:
    return site.pulumi("stack", "ls").out


def test_the_settings_file_holds_a_path_and_no_copy_of_the_toml(site: Site) -> None:
    said = new(site, "new-plain", "--gpu-type", "CPU", "--image-tag", "v0.7.1")

    file = site.project.settings_file("new-plain")
    settings = yaml.safe_load(file.read_text())["config"]
    assert settings == {
        "paddock:kind": "run",
        "paddock:config": "new-plain.toml",
        "paddock:cluster": "local",
        "paddock:gpuType": "CPU",
        "paddock:imageTag": "v0.7.1",
    }
    assert str(file) in said
    assert "pulumi up -s new-plain" in said
    assert not site.local_run("new-plain").run_path.exists()


def test_a_cluster_that_nobody_made_yet_is_told(site: Site) -> None:
    said = new(site, "new-early", "--cluster", "labb")

    assert "notice: cluster labb is no stack of this backend yet" in said


def test_a_stack_that_is_there_is_not_made_again(site: Site) -> None:
    new(site, "new-twice")
    before = site.project.settings_file("new-twice").read_text()

    said = new(site, "new-twice", "--gpu-type", "CPU", expect=1)

    assert "stack new-twice is there already" in said
    assert site.project.settings_file("new-twice").read_text() == before


@pytest.mark.parametrize("run_id", ["Run-1", "1run", "ab", "run_1", "x" * 54])
def test_a_bad_run_id_is_refused_before_anything(site: Site, tmp_path: Path, run_id: str) -> None:
    recorder = make_recorder(tmp_path / "bin")
    path = f"{recorder}:{site.environment['PATH']}"

    said = new(site, run_id, expect=2, PATH=path)

    assert "is not a run id: 3 to 53 of a-z, 0-9 and '-', a letter first" in said
    assert not (recorder / "calls").exists()
    assert not site.project.settings_file(run_id).exists()


def test_a_toml_with_errors_is_refused_before_anything(site: Site) -> None:
    (site.project.path / "new-wrong.toml").write_text('max_stepz = 1\n[trainer]\nlr = "x"\n')

    said = site.paddock("stack", "new", "new-wrong", "new-wrong.toml", expect=2).text

    assert "max_stepz" in said
    assert "Traceback" not in said
    assert "new-wrong" not in stacks(site)


@pytest.mark.parametrize("cluster", ["local", "not-made-yet"])
def test_a_run_over_the_gpu_cap_is_refused_before_anything(site: Site, cluster: str) -> None:
    text = Path(site.project.path / "new-big.toml")
    text.write_text(
        '[model]\nname = "Qwen/Qwen3-0.6B"\n[deployment]\ntype = "multi_node"\n'
        "num_train_nodes = 8\nnum_infer_nodes = 1\n[trainer]\n[orchestrator]\n"
        '[[orchestrator.train.source]]\nname = "one"\nenv.taskset.id = "reverse-text"\n'
        "[inference]\n"
    )

    said = site.paddock(
        "stack", "new", "new-big", "new-big.toml", "--cluster", cluster, expect=2
    ).text

    assert "64 trainer + 8 inference = 72 GPUs, over the cap of 64" in said
    assert "new-big" not in stacks(site)
    assert not site.project.settings_file("new-big").exists()


def test_a_failure_half_way_leaves_nothing(site: Site, tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "bin", fails_at="config set")
    path = f"{recorder}:{site.environment['PATH']}"

    said = new(site, "new-half", "-e", f"API_KEY={CANARY}", expect=1, PATH=path)

    assert "no luck" in said
    assert "Traceback" not in said
    assert "new-half" not in stacks(site)
    assert not site.project.settings_file("new-half").exists()


def test_a_failure_leaves_a_settings_file_that_was_there(site: Site, tmp_path: Path) -> None:
    recorder = make_recorder(tmp_path / "bin", fails_at="config set")
    file = site.project.settings_file("new-kept")
    file.write_text("config:\n  paddock:kind: run\n")

    new(
        site, "new-kept", "-e", "API_KEY=x", expect=1, PATH=f"{recorder}:{site.environment['PATH']}"
    )

    assert file.read_text() == "config:\n  paddock:kind: run\n"
    assert "new-kept" not in stacks(site)


def test_secret_values_are_in_no_argv_and_encrypted_in_the_settings(
    site: Site, tmp_path: Path
) -> None:
    recorder = make_recorder(tmp_path / "bin")
    env_file = tmp_path / "secrets"
    env_file.touch(0o600)
    env_file.write_text(f"FILE_KEY={CANARY}-file\n")
    extra = {
        "PATH": f"{recorder}:{site.environment['PATH']}",
        "SHELL_KEY": f"{CANARY}-shell",
    }

    flags = ("-e", "SHELL_KEY", "-e", f"FLAG_KEY={CANARY}-flag", "--env-file", str(env_file))
    said = new(site, "new-secret", *flags, expect=0, **extra)

    calls = (recorder / "calls").read_text()
    stored = site.project.settings_file("new-secret").read_text()
    assert "config set --secret" in calls
    assert CANARY not in said + calls + stored
    values = yaml.safe_load(stored)["config"]["paddock:env"]
    assert {name: set(value) for name, value in values.items()} == {
        name: {"secure"} for name in ("FILE_KEY", "SHELL_KEY", "FLAG_KEY")
    }
    shown = site.pulumi("config", "get", "paddock:env", "-s", "new-secret").out
    assert all(f"{CANARY}-{kind}" in shown for kind in ("file", "shell", "flag"))


def test_an_env_file_that_others_can_read_is_refused(site: Site, tmp_path: Path) -> None:
    env_file = tmp_path / "secrets"
    env_file.write_text(f"KEY={CANARY}\n")
    os.chmod(env_file, 0o644)

    said = new(site, "new-open", "--env-file", str(env_file), expect=2)

    assert f"chmod 600 {env_file}" in said
    assert CANARY not in said
