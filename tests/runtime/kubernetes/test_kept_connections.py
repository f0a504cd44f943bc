"""A provider's process asks a credential plugin once, whatever it is called for."""

from pathlib import Path

import pytest

from runtime import run_rules
from tests.runtime.kubernetes.fake_api import FakeApi, write_kubeconfig
from tests.runtime.kubernetes.placed_runs import INPUTS

PLUGIN = """#!/bin/sh
echo asked >> {asked}
echo '{{"status": {{"token": "a-token"}}}}'
"""


@pytest.mark.usefixtures("placing")
def test_check_and_create_of_an_up_ask_a_credential_plugin_once(
    fake: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, plugin = tmp_path / "asked", tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(asked=asked))
    plugin.chmod(0o755)
    user = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)},
    }
    server = f"http://127.0.0.1:{fake.port}"
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "own", server, user=user)))

    assert run_rules.refusal({}, INPUTS) is None
    run_rules.place_attempt(INPUTS)

    assert asked.read_text().splitlines() == ["asked"]
