"""What the program asks the engine for while it loads its own modules: asked, and never shown."""

import pytest

from tests.engine.sites import Site

pytestmark = pytest.mark.engine

RUN = "asked-early"


def test_the_provider_and_the_cluster_are_asked_for_and_nothing_is_said_of_it(site: Site) -> None:
    site.new_run(RUN)

    result = site.pulumi("preview", "-s", RUN, "-v=9", "--logtostderr")

    asked = [line for line in result.err.splitlines() if "ResourceMonitor.Invoke received" in line]
    assert sum("tok=pulumi:pulumi:readStackOutputs" in line for line in asked) == 2, asked
    assert sum("tok=pulumi-python:dynamic:none" in line for line in asked) == 1, asked
    assert "dynamic:none" not in result.out
    assert "error" not in result.out
