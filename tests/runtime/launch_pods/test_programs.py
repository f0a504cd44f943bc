"""The programs of the ConfigMap: what they may import, and which Python must read them."""

import ast
import sys
from pathlib import Path

import pytest

from runtime import launch, pod_layout

FOLDER = Path(launch.__file__).parent
FROM_THE_IMAGE = {"prime_rl", "tomli"}  # tomli before Python 3.11 only


@pytest.mark.parametrize("name", pod_layout.PROGRAMS)
def test_a_program_needs_the_standard_library_and_prime_rl_alone(name: str) -> None:
    tree = ast.parse((FOLDER / name).read_text(), feature_version=(3, 10))

    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])

    assert imported - sys.stdlib_module_names <= FROM_THE_IMAGE
