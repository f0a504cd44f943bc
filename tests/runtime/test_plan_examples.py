"""`paddock plan` on prime-rl's example configs: ends as expected, with the right counts."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runtime.cli import app
from runtime.errors import ConfigError, ProblemsError, RefusedError
from tests.runtime.config.examples import DATA, rows

INDEX = rows("configs/index.jsonl")
ROOT = Path(__file__).resolve().parents[2]


def plan(row: dict[str, Any], *options: str) -> dict[str, Any] | BaseException:
    """Return the report of `paddock plan`, or the error that it ends with."""
    argv = ["plan", str(DATA / row["file"]), "--output", "json", *options]
    result = CliRunner().invoke(app, argv)
    if result.exit_code != 0:
        assert result.exception is not None
        return result.exception
    return json.loads(result.stdout)


def judged(report: dict[str, Any]) -> dict[str, Any]:
    """Return what the index says of a config, as the report has it."""
    (inference,) = [role for role in report["roles"] if role["role"] == "inference"]
    return {
        "deployment": report["deployment"],
        "gpus": report["numGpus"],
        "tp": inference["tensorParallel"],
        "dp": inference["dataParallel"],
    }


@pytest.mark.parametrize("row", INDEX, ids=[row["file"].split("/")[-1] for row in INDEX])
def test_an_example_ends_as_the_index_says(row: dict[str, Any]) -> None:
    expected = {
        "deployment": row["deployment"]["type"],
        "gpus": row["gpus"],
        "tp": row["derived"]["infer_tp"],
        "dp": row["derived"].get("infer_dp", 1),
    }

    ended = plan(row)

    if row["expect"] == "accept":
        assert not isinstance(ended, BaseException), ended
        assert judged(ended) == expected
    elif "clean" in row["expect"]:
        assert isinstance(ended, ConfigError)
        assert "clean" in [problem.path for problem in ended.problems]
    else:
        assert isinstance(ended, RefusedError)
        assert [problem.code for problem in ended.problems] == ["gpu_cap"]
        raised = plan(row, "--max-gpus", "512")
        assert not isinstance(raised, BaseException), raised
        assert judged(raised) == expected


def test_the_index_covers_33_examples_with_three_refusals() -> None:
    assert len(INDEX) == 33
    assert sum(row["expect"] != "accept" for row in INDEX) == 3


def test_the_deployment_that_wipes_is_counted_once_it_does_not() -> None:
    (row,) = [row for row in INDEX if "clean" in row["expect"]]

    error = plan(row)

    assert isinstance(error, ProblemsError)
    paths = {problem.path for problem in error.problems}
    assert paths == {"clean", "inference.kv_cache_offload.type"}, "nothing else is wrong in it"


def test_one_spelling_counts_inference_replicas() -> None:
    readers = {
        path.relative_to(ROOT).as_posix()
        for folder in ("runtime", "infra", "policies")
        for path in (ROOT / folder).rglob("*.py")
        if "num_infer_replicas" in path.read_text()
    }

    assert readers == {"runtime/config/deployment.py", "runtime/plan.py"}
