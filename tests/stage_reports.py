"""Reads what a command of a stage came to: its exit code, and pytest's report where it wrote one.

A test that fails is run once more, alone; here is what the two reports say together.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS_FAILED = 1  # pytest's exit code; the others say that it could not run them
FAILURES = ("failure", "error")


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How many tests, or commands that are none of pytest's, came to what."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        """Return the sums."""
        return Counts(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )

    def __str__(self) -> str:
        """Return the line that closes a run."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_results(code: int, report: Path | None) -> Counts:
    """Return the counts of a command; a pytest that ran nothing has failed."""
    if report is None:
        return Counts(passed=1) if code == 0 else Counts(failed=1)
    try:
        suites = ElementTree.parse(report).getroot().iter("testsuite")
    except (FileNotFoundError, ElementTree.ParseError):
        return Counts(failed=1)
    num_tests = num_failed = num_skipped = 0
    for suite in suites:
        num_tests += int(suite.get("tests", 0))
        num_failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        num_skipped += int(suite.get("skipped", 0))
    num_passed = max(num_tests - num_failed - num_skipped, 0)
    if num_passed == 0 or (code != 0 and num_failed == 0):
        num_failed = max(num_failed, 1)
    return Counts(passed=num_passed, failed=num_failed, skipped=num_skipped)


def deserves_second_try(code: int, report: Path) -> bool:
    """Tell whether tests failed, and not pytest itself, a collection or the stage's time limit."""
    return code == TESTS_FAILED and report.exists() and bool(failures(report))


def merge_second_try(first: Counts, *, code: int, first_report: Path, report: Path) -> Counts:
    """Return the counts of a command and of its second try, in which only the failed tests ran.

    What failed before and did not pass now has failed, whatever became of pytest.
    """
    if not report.exists():
        return first
    passed = names_of_passed(report)
    before = failures(first_report)
    num_mended = sum(name in passed for name in before)
    num_failed = max(len(before) - num_mended, 1 if code != 0 else 0)
    return Counts(passed=first.passed + num_mended, failed=num_failed, skipped=first.skipped)


def failures(report: Path) -> dict[str, str]:
    """Return the failed tests of a report, each with what it printed."""
    found: dict[str, str] = {}
    for name, case in _cases(report):
        texts = [f"{part.get('message', '')}\n{part.text or ''}" for part in _failed_parts(case)]
        if texts:
            found[name] = "\n".join(texts)
    return found


def names_of_passed(report: Path) -> set[str]:
    """Return the tests of a report that neither failed nor were skipped."""
    bad = set(failures(report))
    return {
        name for name, case in _cases(report) if name not in bad and case.find("skipped") is None
    }


def _cases(report: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        yield f"{case.get('classname', '')}::{case.get('name', '')}", case


def _failed_parts(case: ElementTree.Element) -> list[ElementTree.Element]:
    return [part for kind in FAILURES for part in case.findall(kind)]
