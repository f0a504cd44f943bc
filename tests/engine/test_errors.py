"""What is wrong with a run's inputs is one readable error, and nothing is made."""

from pathlib import Path

import pytest
import yaml

from tests.engine.sites import MODEL, Site

pytestmark = pytest.mark.engine

RUN = "mistaken"


def refused(site: Site, settings: dict[str, object], command: str = "up") -> str:
    """Return what `pulumi` says about a run stack with these settings; it must not go well."""
    file = site.project.settings_file(RUN)
    if not file.exists():
        site.new_run(RUN)
    document = yaml.safe_load(file.read_text())
    plain = {"kind": "run", "cluster": "local", "config": f"{RUN}.toml", **settings}
    config = {f"paddock:{key}": value for key, value in plain.items() if value is not None}
    file.write_text(yaml.safe_dump({**document, "config": config}))
    result = site.pulumi(command, "-s", RUN, expect=None)
    assert result.code != 0, result.text
    assert "Traceback" not in result.text
    assert 'File "' not in result.text
    if command == "up":
        assert [one for one in site.export(RUN) if one.get("custom")] == []
    assert not site.local_run(RUN).run_path.exists()
    return result.text


def test_a_toml_that_is_not_there(site: Site) -> None:
    said = refused(site, {"config": "gone.toml"})

    assert str(site.project.path / "gone.toml") in said


def test_every_error_of_a_toml_at_once(site: Site) -> None:
    toml = site.write_toml("wrong", "long")
    toml.write_text(
        toml.read_text()
        .replace("max_steps = 100", 'max_stepz = 100\nseq_len = "x"\n#')
        .replace("seq_len = 2048", "")
    )

    said = refused(site, {"config": toml.name})

    assert "2 problems" in said
    assert "max_stepz" in said
    assert "seq_len" in said


def test_a_cluster_that_is_not_there(site: Site) -> None:
    said = refused(site, {"cluster": "elsewhere"})

    assert "elsewhere" in said
    assert "paddock:cluster" in said


def test_a_volume_that_is_not_there(site: Site) -> None:
    said = refused(site, {"volume": "nowhere"})

    assert "nowhere" in said
    assert "paddock:volume" in said


def test_a_cluster_that_is_a_run(site: Site) -> None:
    said = refused(site, {"cluster": RUN}, command="preview")

    assert "paddock:cluster" in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"gpuTyp": "H200_141GB"}, "paddock:gpuTyp: no such setting for this kind of stack"),
        ({"kind": "runn"}, "paddock:kind: must be one of cluster, volume, run"),
        ({"attempt": 0}, "paddock:attempt"),
        ({"config": None}, "exactly one of config (a path) and configText"),
        ({"envFile": "/nowhere/env"}, "/nowhere/env"),
        ({"gpuType": "H200_141GB"}, "H200_141GB"),
    ],
)
def test_a_wrong_setting_is_named(site: Site, settings: dict[str, object], said: str) -> None:
    assert said in refused(site, settings, command="preview")


def test_a_model_that_the_cache_lacks(site: Site) -> None:
    toml = site.write_toml("modelless", "long")
    toml.write_text(toml.read_text().replace(MODEL, "tests/unheard-of"))

    said = refused(site, {"config": toml.name}, command="preview")

    assert "tests/unheard-of" in said


def test_the_secrets_of_a_run_are_judged_by_name_only(site: Site, tmp_path: Path) -> None:
    env_file = tmp_path / "env"
    env_file.touch(0o600)
    for line, words in (
        ("PULUMI_ACCESS_TOKEN=hunter2", "PULUMI_ACCESS_TOKEN is reserved"),
        ("2KEY=hunter2", "line 2: not KEY=VALUE with a name of A-Z"),
    ):
        env_file.write_text(f"KEY=hunter2\n{line}\n")

        said = refused(site, {"envFile": str(env_file)}, command="preview")

        assert words in said
        assert "hunter2" not in said
