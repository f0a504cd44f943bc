"""The language host and its plugins, on the real engine."""

import json

import pytest

from tests.toolchain.conftest import Project

pytestmark = pytest.mark.engine


def test_a_stack_goes_from_init_to_removed(project: Project) -> None:
    preview = project.run("preview")
    project.run("up", "--yes")
    outputs = json.loads(project.run("stack", "output", "--json"))
    unchanged = project.run("up", "--yes")
    project.run("destroy", "--yes")
    project.run("stack", "rm", "--yes", "dev")
    stacks = json.loads(project.run("stack", "ls", "--json"))

    assert "2 to create" in preview
    assert "hello from the program" in preview
    assert "warning" not in preview
    assert outputs == {"directory": "infra"}
    assert "2 unchanged" in unchanged
    assert stacks == []


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("exception", "ValueError: the program is broken"),
        ("exit", "the program ended with exit code 3"),
        ("run-error", "error: refused in one line"),
    ],
)
def test_a_failing_program_is_reported_once(project: Project, failure: str, message: str) -> None:
    output = project.run("preview", expect=1, PROGRAM_FAILURE=failure)

    diagnostics = output[output.index("Diagnostics:") :]
    assert diagnostics.count(message) == 1
    assert "language_host" not in output
    assert "runpy" not in output


def test_a_policy_pack_judges_the_program(project: Project) -> None:
    allowed = project.run("preview", "--policy-pack", "policies")
    denied = project.run("preview", "--policy-pack", "policies", expect=1, POLICY_DENIES="1")

    assert "small-policies" in allowed
    assert "denied by the rule" not in allowed
    assert "denied by the rule" in denied
    assert "preview failed" in denied
