"""Configs as people write them: accepted or refused as the index says, naming what helps."""

import re
from time import process_time
from typing import Any

import pytest

from tests.runtime.config.examples import DATA, rows, said_about

CORPUS = rows("corpus/index.jsonl")

JUDGED_BY_THE_PLAN = {
    "d01-over-cap-nodes.toml": "the GPU cap is a limit of the platform",
    "d04-sixteen-gpu-node.toml": "needs the cluster: what nodes there are",
    "d19-unknown-environment.toml": "needs the cluster: what environments there are",
    "d20-gated-model-no-token.toml": "needs the cluster and the secrets",
    "d26-unknown-gpu-type.toml": "needs the cluster: what GPU types there are",
}

TAGS = re.compile(r"\.(adamw|sgd|muon|single_node|multi_node)(?=\.)")


def text_of(name: str) -> bytes:
    data = (DATA / "corpus" / name).read_bytes()
    if name == "d25-huge-comment-file.toml":
        data += b"# a comment of thirty-two letters\n" * 75_000
    return data


def names(said: str, wanted: str) -> bool:
    """Tell whether a message names something; union tags are left out of paddock's paths."""
    wanted = TAGS.sub("", wanted)
    return wanted in said or wanted in said.replace("[", ".").replace("]", "")


@pytest.mark.parametrize("row", CORPUS, ids=[row["file"] for row in CORPUS])
def test_a_file_is_judged_as_the_index_says(row: dict[str, Any]):
    if row["file"] in JUDGED_BY_THE_PLAN:
        return
    expected = row["valid"] and not row.get("dispatch_should_refuse")
    started = process_time()

    loaded, said = said_about(text_of(row["file"]))

    assert process_time() - started < 1
    assert (loaded is not None) == expected, said
    for wanted in [row["must_mention"], *row.get("also_mention", [])]:
        assert names(said, wanted), f"{wanted} is not named in: {said}"


def test_what_is_left_to_the_plan_is_accepted_here():
    assert len(CORPUS) == 122
    for name in JUDGED_BY_THE_PLAN:
        loaded, said = said_about(text_of(name))
        assert loaded is not None, said


def test_no_message_holds_a_secret_of_the_file():
    _, said = said_about(text_of("d15-secret-in-file.toml"))

    assert "0000example0000" not in said
