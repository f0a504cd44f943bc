"""The corpus judged as `paddock plan` does: what the schema leaves to plan and admission, too."""

from typing import Any

import pytest

from tests.runtime.config.examples import rows
from tests.runtime.config.test_corpus import CORPUS, names, text_of
from tests.runtime.judging import judge, profile_of

CASES = rows("config-cases.jsonl")
NAMED_ONCE = {"name top"}  # accepted by its row, but corpus/d33 wants two different names refused
OWN_CHOICE = {"no-inference": True, "max_steps 0": False}


@pytest.mark.parametrize("row", CORPUS, ids=[row["file"] for row in CORPUS])
def test_a_file_is_judged_as_the_index_says(row: dict[str, Any]) -> None:
    expected = row["valid"] and not row.get("dispatch_should_refuse")
    profile = profile_of() if row.get("needs_cluster") else None

    verdict = judge(text_of(row["file"]), profile=profile)

    assert verdict.is_accepted == expected, verdict.said
    for wanted in [row["must_mention"], *row.get("also_mention", [])]:
        assert names(verdict.said, wanted), f"{wanted} is not named in: {verdict.said}"


@pytest.mark.parametrize("row", CASES, ids=[row["case"] for row in CASES])
def test_a_small_case_is_judged_as_its_row_says(row: dict[str, Any]) -> None:
    case = row["case"]
    if case in NAMED_ONCE:
        return
    expected = OWN_CHOICE[case] if row["expect"] is None else row["expect"] == "accept"
    profile = profile_of() if case == "source env id unknown" else None

    verdict = judge(row["toml"], profile=profile)

    assert verdict.is_accepted == expected, verdict.said


def test_a_gated_model_passes_with_its_token() -> None:
    verdict = judge(
        text_of("d20-gated-model-no-token.toml"),
        profile=profile_of(),
        secrets=frozenset({"HF_TOKEN"}),
    )

    assert verdict.is_accepted, verdict.said


def test_a_typo_in_an_environment_names_the_one_that_was_meant() -> None:
    verdict = judge(text_of("d19-unknown-environment.toml"), profile=profile_of())

    assert verdict.codes == ["taskset"]
    assert "did you mean reverse-text?" in verdict.said


def test_a_node_that_is_too_big_is_answered_with_the_deployment_that_fits() -> None:
    verdict = judge(text_of("d04-sixteen-gpu-node.toml"), profile=profile_of())

    assert verdict.codes == ["too_big"]
    assert "num_train_nodes = 1, num_infer_nodes = 1, gpus_per_node = 8" in verdict.said
