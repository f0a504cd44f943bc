"""What a server reads of stacks that others made, and whether it can open them, by the engine."""

import pytest

from runtime.control import stacks
from runtime.control.known_stacks import KnownStacks
from tests.engine.sites import ROOT
from tests.runtime.control.operating.operations import Operating

pytestmark = pytest.mark.engine


def test_a_stack_is_read_once_until_it_changes(
    operating: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = operating.site
    shut = {**site.environment, "PULUMI_CONFIG_PASSPHRASE": "another"}
    known = KnownStacks(operating.store, checkout=ROOT, environ=site.environment)
    stranger = KnownStacks(operating.store, checkout=ROOT, environ=shut)
    asked: list[str] = []
    refresh = stacks.refresh_settings

    def noted(project: stacks.Project, stack: str) -> None:
        asked.append(stack)
        refresh(project, stack)

    monkeypatch.setattr(stacks, "refresh_settings", noted)
    site.new_run("run-known", "quick", controlPlane="plane-a")
    missing = known.facts("run-missing")
    before = [known.facts("run-known") for _ in range(2)]
    [listed] = [one for one in known.listed() if one.name == "run-known"]
    site.pulumi("up", "-s", "run-known")
    after = [known.facts("run-known") for _ in range(2)]
    refused = stranger.facts("run-known")
    site.pulumi("destroy", "-s", "run-known")
    site.pulumi("stack", "rm", "run-known", "--yes", "--preserve-config")

    assert "is not in this server's state backend" in missing.trouble
    assert "no previous deployment" in before[0].trouble
    assert before[0] is before[1]
    assert listed.num_resources == 0
    assert after[0] is after[1]
    assert after[0].is_run_on("local")
    assert not after[0].is_run_on("west")
    # exactly what was set: the engine keeps every declared setting in an update
    assert after[0].settings.keys() == {"kind", "cluster", "config", "controlPlane"}
    assert "incorrect passphrase" in refused.trouble
    assert refused.settings == after[0].settings  # so whose it is can be told
    assert not refused.is_run_on("local")
    assert asked == ["run-known"] * 3  # never up, then up, and by the stranger
    assert not known.facts("run-known").is_run_on("local")
