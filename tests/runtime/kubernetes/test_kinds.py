"""The table of kinds: where each API's versions stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("group", ["kueue.x-k8s.io", "jobset.x-k8s.io", "karpenter.sh"])
def test_the_versions_of_an_add_on_stand_in_one_module(group: str) -> None:
    version = re.compile(rf"\"{re.escape(group)}/v\d")
    modules = (path for folder in ("infra", "runtime") for path in (ROOT / folder).rglob("*.py"))

    found = [path.name for path in modules if version.search(path.read_text())]

    assert found == ["kubernetes_kinds.py"]
