"""Clusters are the stacks that export a profile; they are read again when one has changed."""

import pytest

from runtime.control import stacks
from runtime.control.dispatch import new_stack
from runtime.control.known_clusters import KnownClusters
from tests.engine.sites import ROOT
from tests.runtime.control.operating.operations import Operating

pytestmark = pytest.mark.engine


def test_clusters_are_found_read_once_and_forgotten(
    operating: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = operating.site
    clusters = KnownClusters(operating.store, checkout=ROOT, environ=site.environment)
    asked: list[str] = []
    outputs = stacks.outputs

    def noted(project: stacks.Project, stack: str) -> dict:
        asked.append(stack)
        return outputs(project, stack)

    monkeypatch.setattr(stacks, "outputs", noted)
    before = dict(clusters.profiles())
    clusters.refresh()
    clusters.refresh()
    first = list(clusters.profiles())
    new_stack(site.project, "second", {"kind": "cluster", "target": "local", "slots": 2})
    clusters.refresh()
    unready = list(clusters.profiles())
    site.pulumi("up", "-s", "second")
    clusters.refresh()
    both = dict(clusters.profiles())
    site.pulumi("destroy", "-s", "second")
    site.pulumi("stack", "rm", "second", "--yes")
    clusters.refresh()

    assert before == {}
    assert first == unready == list(clusters.profiles()) == ["local"]
    assert both["second"].gpus[0].num_gpus == 2
    assert asked == ["local", "second", "second"]  # a stack without outputs, then the cluster
