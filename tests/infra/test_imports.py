"""What a stack's program and provider load: every `up` waits for it, twice on two processes."""

import json
import subprocess
import sys

import pytest

PROGRAM = ("infra.program", "infra.targets.kubernetes", "infra.k8s.run")
PROVIDER = ("infra.run_spec", "runtime.run_rules", "runtime.kubernetes_run")


def loaded(*modules: str) -> set[str]:
    """Return the names of what a Python of its own has loaded after these modules."""
    code = f"import json, sys, {', '.join(modules)}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("modules", "unwanted"),
    [
        pytest.param(
            PROGRAM,
            {"httpx", "pulumi_kubernetes", "infra.targets.local", "runtime.supervisor_client"},
            id="a run on a cluster",
        ),
        pytest.param(("infra.program", "infra.targets.local"), {"httpx"}, id="a run here"),
        pytest.param(
            PROVIDER,
            {"runtime.config", "runtime.plan", "runtime.local_rules", "pulumi_kubernetes"},
            id="its RunSpec",
        ),
        pytest.param(("infra.prefetch",), {"pydantic", "infra.settings"}, id="the prefetch"),
    ],
)
def test_what_nobody_needs_is_not_loaded(modules: tuple[str, ...], unwanted: set[str]) -> None:
    assert loaded(*modules) & unwanted == set()
