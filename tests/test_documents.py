"""The documents: links that lead somewhere, settings that exist, records of ten lines."""

import re
from pathlib import Path

import pytest
import yaml

from runtime.stack_settings import (
    SECRET_KEYS,
    KubernetesClusterSettings,
    LocalClusterSettings,
    RunSettings,
    VolumeSettings,
    parse_settings,
)

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("stacks/*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
ROW_KEY = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_of_the_tree(path: Path) -> None:
    targets = LINK.findall(path.read_text())

    missing = [target for target in targets if not (path.parent / target).exists()]

    assert not missing


@pytest.mark.parametrize(
    ("heading", "model", "more"),
    [
        ("Keys of a run", RunSettings, SECRET_KEYS),
        ("Keys of a cluster", LocalClusterSettings, frozenset()),
        ("Keys of a Kubernetes cluster", KubernetesClusterSettings, frozenset()),
        ("Keys of a volume", VolumeSettings, frozenset()),
    ],
)
def test_every_setting_is_documented(
    heading: str, model: type[RunSettings], more: frozenset[str]
) -> None:
    text = (ROOT / "stacks" / "README.md").read_text()
    section = text.split(f"## {heading}")[1].split("\n## ")[0]

    known = {field.alias for field in model.model_fields.values()} | more

    assert set(ROW_KEY.findall(section)) == known


def test_the_cluster_that_comes_with_the_project_is_a_cluster() -> None:
    document = yaml.safe_load((ROOT / "stacks" / "Pulumi.local.yaml").read_text())
    values = {key.removeprefix("paddock:"): value for key, value in document["config"].items()}

    assert parse_settings(values, stack="local").kind == "cluster"


def test_decision_records_are_short() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("*.md"))

    assert records
    for path in records:
        text = path.read_text()
        assert len(text.splitlines()) <= 15, path.name
        for part in ("Context:", "Choice:", "Rejected:", "Consequence:"):
            assert part in text, f"{path.name} lacks {part}"
