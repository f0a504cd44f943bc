"""The plan command as a user meets it: errors as a list, cluster files, what importing costs."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from runtime import cli
from runtime.errors import ConfigError, NotFoundError, RefusedError, SettingsError
from runtime.plan import plan_from_json, plan_to_json
from runtime.plan_report import plan_report
from tests.runtime.config.test_random_edits import VALID, edited, to_toml
from tests.runtime.judging import CLUSTERS, judge, profile_of

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = str(CLUSTERS / "h100.json")
TEXT = """
max_steps = 10
[model]
name = "Qwen/Qwen3-0.6B"
[trainer]
[orchestrator]
group_size = 8
batch_size = 64
[[orchestrator.train.source]]
name = "reverse-text"
env.taskset.id = "reverse-text"
env.agent.harness.id = "null"
env.agent.runtime.type = "subprocess"
[inference]
"""
PURE = ("config", "plan", "admission", "plan_report", "launch.wiring", "launch.commands")
HEAVY = ("torch", "transformers", "pulumi", "fastapi", "uvicorn", "verifiers", "runtime.rl")


def written(tmp_path: Path, text: str = TEXT) -> str:
    path = tmp_path / "rl.toml"
    path.write_text(text)
    return str(path)


def invoke(*argv: str) -> dict[str, Any] | BaseException:
    result = CliRunner().invoke(cli.app, ["plan", *argv, "--output", "json"])
    if result.exit_code != 0:
        assert result.exception is not None
        return result.exception
    return json.loads(result.stdout)


def report_of(*argv: str) -> dict[str, Any]:
    ended = invoke(*argv)
    assert not isinstance(ended, BaseException), ended
    return ended


def test_errors_are_a_list_of_loc_and_msg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, TEXT.replace("batch_size = 64", "batch_size = 0\nnme = 1"))
    monkeypatch.setattr(sys, "argv", ["paddock", "plan", path, "--output", "json"])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert ended.value.code == 2
    assert answer["error"] == "config"
    assert [problem["loc"] for problem in answer["detail"]] == [
        ["orchestrator", "batch_size"],
        ["orchestrator", "nme"],
    ]
    assert all(problem["msg"] and problem["code"] for problem in answer["detail"])
    assert "orchestrator.batch_size: 0 is out of range" in printed.err


def test_refusals_have_the_same_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, 'gpu_type = "H100x8"\nvolume = "none"\n' + TEXT)
    monkeypatch.setattr(sys, "argv", ["paddock", "plan", path, "--cluster", CLUSTER, "-o", "json"])

    with pytest.raises(SystemExit):
        cli.main()

    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == "refused"
    assert [(one["code"], one["loc"]) for one in answer["detail"]] == [
        ("gpu_type", ["gpu_type"]),
        ("volume", ["volume"]),
    ]


def test_the_printed_plan_names_what_a_person_looks_for(tmp_path: Path) -> None:
    before = sorted(ROOT.glob("runs/*"))

    result = CliRunner().invoke(cli.app, ["plan", str(ROOT / "examples" / "multi-node.toml")])

    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    for said in (
        "qwen30b-math: multi_node, 32 GPUs (4 x 8 of any type)",
        "trainer 2 8 16",
        "inference 2 8 16 8 1",
        "--nproc-per-node=8",
        "volume: the cluster's default run volume",
        "price: no end: $",
        "taskset: not checked (no --cluster)",
        "model: not checked (no --cluster)",
        "capacity: not checked (no --cluster)",
    ):
        assert said in text
    assert sorted(ROOT.glob("runs/*")) == before


def test_what_only_a_cluster_knows_is_not_checked_without_one(tmp_path: Path) -> None:
    report = report_of(written(tmp_path))

    assert report["notChecked"] == ["taskset", "model", "capacity"]


def test_a_cluster_file_is_enough_to_plan_on(tmp_path: Path) -> None:
    report = report_of(written(tmp_path), "--cluster", CLUSTER)

    assert report["gpuType"] == "H100_80GB"
    assert report["pricePerHour"] == 5.0
    assert report["notChecked"] == []


def test_a_gated_model_is_refused_until_its_token_is_passed(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("Qwen/Qwen3-0.6B", "meta-llama/Llama-3.2-3B-Instruct"))

    refused = invoke(path, "--cluster", CLUSTER)

    assert isinstance(refused, RefusedError)
    assert [problem.code for problem in refused.problems] == ["gated_model"]
    assert report_of(path, "--cluster", CLUSTER, "-e", "HF_TOKEN=canary")
    assert "canary" not in json.dumps(
        report_of(path, "--cluster", CLUSTER, "-e", "HF_TOKEN=canary")
    )


def test_a_requested_package_opens_a_closed_list(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace('id = "reverse-text"', 'id = "mine"'))

    assert isinstance(invoke(path, "--cluster", CLUSTER), RefusedError)
    assert report_of(path, "--cluster", CLUSTER, "--environment", "mine==1.0")


def test_a_package_with_a_token_is_refused_without_it(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)

    refused = invoke(path, "--environment", "git+https://canary@host/x.git")

    assert isinstance(refused, RefusedError)
    assert "environments[0]: it holds a user or password" in str(refused)
    assert "canary" not in str(refused)


def test_names_with_brackets_and_colons_are_printed_as_they_are(tmp_path: Path) -> None:
    odd = "a[/b] [bold]c :x:"
    text = TEXT.replace("max_steps = 10", f'max_steps = 10\nname = "{odd}"')
    path = written(tmp_path, text.replace('name = "reverse-text"', 'name = "x:x:y[b]"'))

    result = CliRunner().invoke(cli.app, ["plan", path])

    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith(f"{odd}: ")
    assert "x:x:y[b]" in result.stdout


def test_unknown_keys_are_notices_where_the_cluster_allows_them(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT + "[trainer.newer]\nknob = 1\n")
    profile = json.loads(Path(CLUSTER).read_text()) | {"allow_unknown_fields": True}
    cluster = tmp_path / "newer.json"
    cluster.write_text(json.dumps(profile))

    refused = invoke(path, "--cluster", CLUSTER)
    report = report_of(path, "--cluster", str(cluster))

    assert isinstance(refused, ConfigError)
    assert [problem.code for problem in refused.problems] == ["unknown_key"]
    assert any("trainer.newer: unknown key" in notice for notice in report["notices"])


def test_bad_secrets_and_a_bad_plan_are_told_together(tmp_path: Path) -> None:
    path = written(tmp_path, 'image_tag = "a b"\n' + TEXT)

    refused = invoke(path, "-e", "LD_PRELOAD=x", "-e", "1A=x")

    assert isinstance(refused, RefusedError)
    assert [problem.code for problem in refused.problems] == ["secret", "secret", "image_tag"]


@pytest.mark.parametrize(
    ("content", "error"), [(None, NotFoundError), ("{}", SettingsError), ("[", SettingsError)]
)
def test_a_cluster_file_that_is_none_is_an_error(
    tmp_path: Path, content: str | None, error: type[Exception]
) -> None:
    cluster = tmp_path / "cluster.json"
    if content is not None:
        cluster.write_text(content)

    assert isinstance(invoke(written(tmp_path), "--cluster", str(cluster)), error)


@pytest.mark.parametrize("module", PURE)
def test_the_pure_half_imports_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, runtime.{module};print([name for name in {HEAVY!r} if name in sys.modules])"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)

    assert printed.stdout.strip() == "[]", printed.stdout + printed.stderr


@pytest.mark.parametrize("seed", range(60))
def test_edited_configs_are_planned_or_refused_but_never_crash(seed: int) -> None:
    random_ = random.Random(seed)
    table, _ = edited(random_.choice(VALID), random_)

    verdict = judge(to_toml(table), profile=profile_of() if seed % 2 else None)

    assert verdict.problems or verdict.plan is not None
    if verdict.plan is not None:
        assert plan_from_json(plan_to_json(verdict.plan)) == verdict.plan
        assert plan_report(verdict.plan, run_path="/r", notices=[], not_checked=[])
