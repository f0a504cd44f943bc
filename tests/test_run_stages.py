"""The stage runner of `make test`: what counts as passed, and how it closes."""

import sys
import time
from pathlib import Path

import pytest

from tests import run_stages
from tests.run_stages import Stage, count_results, pytest_command


def stage(name: str, *commands: tuple[str, ...], limit_s: float = 60) -> Stage:
    return Stage(name=name, commands=commands, limit_s=limit_s)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Stage]:
    """Put the stages of a test in place of the real ones; logs go to a folder of the test."""
    stages: list[Stage] = []
    monkeypatch.setattr(run_stages, "STAGES", stages)
    monkeypatch.setattr(run_stages, "WAVES", ((("one",), ("two",)), (("three",),)))
    monkeypatch.setattr(run_stages, "LOGS", tmp_path / "logs")
    monkeypatch.delenv(run_stages.SKIP_VARIABLE, raising=False)
    return stages


def pytest_file(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "test_it.py"
    path.write_text(text)
    return pytest_command("-p", "no:cacheprovider", f"--rootdir={folder}", str(path))


def test_the_last_line_has_the_totals_of_all_stages(
    chosen: list[Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = "import pytest\ndef test_a(): pass\n@pytest.mark.skip\ndef test_b(): pass\n"
    chosen += [stage("one", python(""), python("")), stage("two", pytest_file(tmp_path, tests))]
    chosen += [stage("three", python("raise SystemExit(3)"))]

    code = run_stages.main([])
    lines = capsys.readouterr().out.splitlines()

    assert code == 1
    assert lines[-1] == "3 passed, 1 failed, 1 skipped"


@pytest.mark.parametrize(
    ("code", "tests", "failures", "skipped", "expected"),
    [
        (0, 3, 0, 1, (2, 0, 1)),
        (1, 3, 1, 0, (2, 1, 0)),
        (0, 2, 0, 2, (0, 1, 2)),
        (5, 0, 0, 0, (0, 1, 0)),
        (3, 4, 0, 0, (4, 1, 0)),
    ],
)
def test_a_pytest_that_ran_nothing_has_failed(
    tmp_path: Path,
    code: int,
    tests: int,
    failures: int,
    skipped: int,
    expected: tuple[int, int, int],
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        f'<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0" '
        f'skipped="{skipped}"/></testsuites>'
    )

    assert count_results(code, report) == expected


def test_a_pytest_that_wrote_no_report_has_failed(tmp_path: Path) -> None:
    assert count_results(0, tmp_path / "report.xml") == (0, 1, 0)


def test_a_stage_is_left_out_only_by_name(
    chosen: list[Stage], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen += [stage("one", python("raise SystemExit(1)")), stage("two", python(""))]
    chosen += [stage("three", python(""))]
    monkeypatch.setenv(run_stages.SKIP_VARIABLE, "one,three")

    code = run_stages.main([])
    lines = capsys.readouterr().out.splitlines()

    assert code == 0
    assert lines[-1] == "1 passed, 0 failed, 2 skipped"
    assert run_stages.main(["four"]) == 2


def test_a_stage_ends_at_its_limit(chosen: list[Stage], capsys: pytest.CaptureFixture[str]) -> None:
    chosen += [stage("one", python("import time; time.sleep(60)"), limit_s=1)]
    started = time.monotonic()

    code = run_stages.main(["one"])

    assert code == 1
    assert time.monotonic() - started < 30
    assert "over the stage's time limit" in capsys.readouterr().out
