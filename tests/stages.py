"""The stages of `make test`, and which of them may run side by side; plain data."""

import sys
from dataclasses import dataclass
from pathlib import Path

PYTHON = sys.executable
BIN = Path(PYTHON).parent
ENGINE = "engine and not (embedded or crash or e2e or cluster)"
TREE_TESTS = ("tests/test_tree.py", "tests/test_wheel.py")
TESTBED = "testbed"

Command = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Commands that are run one after another, all of them, until the limit is over."""

    name: str
    commands: tuple[Command, ...]
    limit_s: float


def pytest_command(*arguments: str) -> Command:
    """Return a pytest command."""
    return (PYTHON, "-m", "pytest", "-q", "--durations=5", *arguments)


def is_pytest(command: Command) -> bool:
    """Tell whether a command is one of pytest's, so that it writes a report."""
    return command[1:3] == ("-m", "pytest")


# What the testbed needs and takes minutes to build; both commands do nothing where it is built.
BUILDS: tuple[Command, ...] = (
    (PYTHON, "-m", "tests.testbed", "build"),
    (PYTHON, "-m", "toolchain.setup", "kubernetes"),
)
# `tools` are the engine's tests of toolchain and policies, apart so that the other core has work.
# A test with several markers belongs to the last of these stages.
STAGES = (
    Stage(
        name="lint",
        commands=(
            (f"{BIN}/ruff", "check"),
            (f"{BIN}/ruff", "format", "--check"),
            (f"{BIN}/lint-imports",),
            pytest_command(*TREE_TESTS),
            (f"{BIN}/pyright",),
        ),
        limit_s=600,
    ),
    Stage(
        name="unit",
        commands=(pytest_command(*(f"--ignore={path}" for path in TREE_TESTS)),),
        limit_s=600,
    ),
    Stage(
        name="control",
        commands=(
            pytest_command(
                "-m", "control and not (engine or embedded or crash or e2e or cluster or long)"
            ),
        ),
        limit_s=2100,
    ),
    Stage(
        name="tools",
        commands=(pytest_command("-m", ENGINE, "--ignore=tests/engine"),),
        limit_s=1500,
    ),
    Stage(name="engine", commands=(pytest_command("-m", ENGINE, "tests/engine"),), limit_s=1500),
    Stage(
        name="embedded",
        commands=(pytest_command("-m", "embedded and not (crash or e2e or cluster)"),),
        limit_s=900,
    ),
    Stage(
        name="crash",
        commands=(pytest_command("-m", "crash and not (e2e or cluster)"),),
        limit_s=1800,
    ),
    Stage(name="e2e", commands=(pytest_command("-m", "e2e and not cluster"),), limit_s=1800),
    Stage(name=TESTBED, commands=(*BUILDS, (PYTHON, "-m", "tests.testbed", "start")), limit_s=2400),
    Stage(name="cluster", commands=(pytest_command("-m", "cluster and not long"),), limit_s=3600),
)
# Lanes of a wave run side by side, one a core; later waves need the machine for themselves.
WAVES = (
    (("lint", "unit", "tools"), ("engine", "control")),
    (("embedded",),),
    (("crash",),),
    (("e2e",),),
    ((TESTBED,),),
    (("cluster",),),
)
