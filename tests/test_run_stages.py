"""The stage runner of `make test`: what counts as passed, and how it closes."""

import os
import sys
import time
from pathlib import Path

import pytest

from tests import run_stages, stages
from tests.stage_reports import Counts, count_results, merge_second_try
from tests.stages import Stage, pytest_command
from tests.testbed import lifecycle


def stage(name: str, *commands: tuple[str, ...], limit_s: float = 60) -> Stage:
    return Stage(name=name, commands=commands, limit_s=limit_s)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Stage]:
    """Put the stages of a test in place of the real ones; logs go to a folder of the test."""
    found: list[Stage] = []
    monkeypatch.setattr(run_stages, "STAGES", found)
    monkeypatch.setattr(run_stages, "WAVES", ((("one",), ("two",)), (("three",),)))
    monkeypatch.setattr(run_stages, "LOGS", tmp_path / "logs")
    monkeypatch.delenv(run_stages.SKIP_VARIABLE, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a pytest in each test: be quick
    return found


def pytest_file(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "test_it.py"
    path.write_text(text)
    return pytest_command(f"--rootdir={folder}", str(path))


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
        (0, 3, 0, 1, Counts(passed=2, skipped=1)),
        (1, 3, 1, 0, Counts(passed=2, failed=1)),
        (0, 2, 0, 2, Counts(failed=1, skipped=2)),
        (5, 0, 0, 0, Counts(failed=1)),
        (3, 4, 0, 0, Counts(passed=4, failed=1)),
    ],
)
def test_a_pytest_that_ran_nothing_has_failed(
    tmp_path: Path,
    code: int,
    tests: int,
    failures: int,
    skipped: int,
    expected: Counts,
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        f'<testsuites><testsuite tests="{tests}" failures="{failures}" errors="0" '
        f'skipped="{skipped}"/></testsuites>'
    )

    assert count_results(code, report) == expected


def test_a_pytest_that_wrote_no_report_has_failed(tmp_path: Path) -> None:
    assert count_results(0, tmp_path / "report.xml") == Counts(failed=1)


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


FLAKY = """
from pathlib import Path

def test_steady():
    with Path("{folder}/runs").open("a") as runs:
        runs.write("steady ")

def test_flaky():
    mark = Path("{folder}/mark")
    is_first = not mark.exists()
    mark.touch()
    print("what it printed")
    assert not is_first, "the first failure"
"""


def test_a_test_that_passes_at_the_second_try_has_passed(
    chosen: list[Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen += [stage("one", pytest_file(tmp_path, FLAKY.format(folder=tmp_path)))]

    code = run_stages.main(["one"])
    output = capsys.readouterr().out

    assert code == 0
    assert output.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"
    assert output.splitlines()[-2] == "passed at the second try: test_it::test_flaky"
    assert "the first failure" in output
    assert (tmp_path / "runs").read_text() == "steady "


def test_a_test_that_fails_twice_fails_its_stage(
    chosen: list[Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = FLAKY.format(folder=tmp_path) + "def test_broken(): assert False, 'for good'\n"
    chosen += [stage("one", pytest_file(tmp_path, tests))]

    code = run_stages.main(["one"])
    output = capsys.readouterr().out

    assert code == 1
    assert output.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"
    assert "===== one failed; all that it printed =====" in output


def test_an_old_failure_is_no_reason_for_a_second_try(
    chosen: list[Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = "def test_broken(): assert False\n"
    chosen += [stage("one", pytest_file(tmp_path, tests))]
    run_stages.main(["one"])
    pytest_file(tmp_path, tests.replace("False", "True"))

    code = run_stages.main(["one"])
    output = capsys.readouterr().out

    assert code == 0
    assert output.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("tests", ["import nothing_of_this_name\n", "", "raise SystemExit\n"])
def test_what_pytest_cannot_run_gets_no_second_try(
    chosen: list[Stage], tmp_path: Path, capsys: pytest.CaptureFixture[str], tests: str
) -> None:
    chosen += [stage("one", pytest_file(tmp_path, tests))]

    code = run_stages.main(["one"])

    assert code == 1
    assert "once more" not in capsys.readouterr().out


def test_a_second_try_that_never_ran_mends_nothing(tmp_path: Path) -> None:
    first = tmp_path / "first.xml"
    first.write_text("<testsuite><testcase name='a'><failure/></testcase></testsuite>")
    counts = Counts(passed=1, failed=1)

    merged = merge_second_try(
        counts, code=3, first_report=first, report=tmp_path / "never-written.xml"
    )

    assert merged == counts


def test_every_stage_has_its_place_and_the_cluster_comes_last() -> None:
    placed = [name for wave in stages.WAVES for lane in wave for name in lane]

    assert sorted(placed) == sorted(stage.name for stage in stages.STAGES)
    assert stages.WAVES[-2:] == ((("testbed",),), (("cluster",),))


def test_the_testbeds_programs_are_built_beside_the_first_stages(
    chosen: list[Stage], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, stopped = tmp_path / "built", []
    monkeypatch.setattr(run_stages, "BUILDS", (("touch", str(built)),))
    monkeypatch.setattr(run_stages, "WAVES", ((("one",),), (("testbed",),)))
    monkeypatch.setattr(lifecycle, "is_running", lambda: False)
    monkeypatch.setattr(lifecycle, "stop", lambda: stopped.append("testbed"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    waiting = (
        "import pathlib, time\n"
        f"while not pathlib.Path({str(built)!r}).exists():\n"
        "    time.sleep(0.1)\n"
    )
    chosen += [stage("one", python(waiting), limit_s=60), stage("testbed", python(""))]

    code = run_stages.main([])

    assert code == 0
    assert stopped == ["testbed"]


def test_a_testbed_that_ran_before_runs_on(
    chosen: list[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_stages, "BUILDS", ())
    monkeypatch.setattr(run_stages, "WAVES", ((("testbed",),),))
    monkeypatch.setattr(lifecycle, "is_running", lambda: True)
    monkeypatch.setattr(lifecycle, "stop", lambda: pytest.fail("stopped"))
    chosen += [stage("testbed", python(""))]

    assert run_stages.main([]) == 0
