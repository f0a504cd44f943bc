"""A volume stack outlives its runs: their directories lie on it, and it is protected."""

from collections.abc import Iterator

import pytest

from runtime.control.dispatch import new_stack
from runtime.record import read_record
from runtime.states import RunState, Teardown
from tests.engine.sites import Site
from tests.waiting import wait_for

pytestmark = pytest.mark.engine

VOLUME = "shelf"


@pytest.fixture(scope="module")
def volume(shared_site: Site) -> Iterator[Site]:
    """Yield the site with a volume stack that is up and holds a model."""
    site = shared_site
    new_stack(site.project, VOLUME, {"kind": "volume", "cluster": "local", "path": "shelves/one"})
    site.pulumi("up", "-s", VOLUME)
    model = site.project.path / "shelves" / "one" / "models" / "kept"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    yield site
    site.pulumi("state", "unprotect", "--all", "--yes", "-s", VOLUME)
    site.pulumi("destroy", "-s", VOLUME)
    assert not (site.project.path / "shelves" / "one").exists()


def volumes_of(site: Site, stack: str) -> list[str]:
    return [one["urn"] for one in site.export(stack) if one["type"].endswith("local:Volume")]


def test_a_run_on_a_volume_leaves_its_directory_there(volume: Site) -> None:
    toml = volume.write_toml("on-volume", "quick")
    text = toml.read_text()
    toml.write_text(text.replace('name = "tests/nothing"', 'name = "/volume/models/kept"'))
    run_path = volume.project.path / "shelves" / "one" / "runs" / "on-volume"

    volume.paddock("stack", "new", "on-volume", toml.name, "--volume", VOLUME)
    volume.pulumi("up", "-s", "on-volume")

    waited = volume.paddock("wait", "on-volume")
    assert "on-volume COMPLETED" in waited.out
    assert volumes_of(volume, VOLUME)
    assert not volumes_of(volume, "on-volume")
    volume.pulumi("destroy", "-s", "on-volume")
    record = read_record(run_path / "record.json")
    assert record is not None
    assert record.state is RunState.COMPLETED
    assert record.teardown is Teardown.DONE
    assert (run_path / "logs" / "attempt_1" / "orchestrator.log").exists()
    wait_for(lambda: not volume.leftovers())


def test_a_volume_is_protected(volume: Site) -> None:
    result = volume.pulumi("destroy", "-s", VOLUME, expect=None)

    assert result.code != 0
    assert "protected" in result.text
    assert (volume.project.path / "shelves" / "one" / "runs").is_dir()


def test_a_model_that_the_volume_lacks_is_refused(volume: Site) -> None:
    toml = volume.write_toml("no-model", "quick")
    toml.write_text(toml.read_text().replace('"tests/nothing"', '"/volume/models/other"'))
    volume.paddock("stack", "new", "no-model", toml.name, "--volume", VOLUME)

    result = volume.pulumi("preview", "-s", "no-model", expect=None)

    assert result.code != 0
    assert "/volume/models/other" in result.text
    assert "Traceback" not in result.text
