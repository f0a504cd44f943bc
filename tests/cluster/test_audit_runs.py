"""Runs in real pods: on a volume of their own, with packages that fail, and with slow transport."""

import json
import shutil
import subprocess

import pytest

from runtime import homes, models
from runtime.control.dispatch import new_stack
from runtime.rl.tiny_model import ensure_tiny_model
from runtime.states import RunState
from tests.cluster.labs import STACK
from tests.cluster.run_files import multi_node, small_demo
from tests.cluster.runs import NODES_GPU, Runs, claim_folder
from tests.testbed.volumes import SHARED
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

SOCKETS = "run:7:55 [0] NCCL INFO Using network Socket\n"
"""As NCCL says it; the embedded engine has no NCCL, so the test puts it into the log."""

VOLUME = "experiments"


def test_a_run_whose_nccl_uses_sockets_is_warned_about_and_told_of_after_its_pods(
    runs: Runs,
) -> None:
    run_id = "run-sockets"
    text = multi_node().replace("_nodes = 2", "_nodes = 1").replace("max_steps = 2", "")
    runs.up(run_id, text, gpuType=NODES_GPU)
    runs.until_step(run_id, 1)
    trainer = runs.api.get("Pod", runs.pod(run_id, "trainer"))
    assert trainer is not None
    (container,) = trainer["spec"]["containers"]
    with (runs.folder(run_id) / "logs/attempt_1/trainer.log").open("a") as log:
        log.write(SOCKETS)

    warnings = wait_for(lambda: runs.settle(run_id).warnings, timeout_s=120)
    shown = runs.site.paddock("components", run_id)
    runs.site.paddock("stop", run_id)
    after = runs.site.paddock("components", run_id, "-o", "json")
    runs.destroy(run_id)

    assert container["resources"]["limits"]["rdma/ib"] == "8"
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert {"name": "NCCL_DEBUG", "value": "INFO"} in container["env"]
    assert len(warnings) == 1
    assert warnings[0].startswith("TRANSPORT_DEGRADED: NCCL of trainer-0 uses Socket")
    assert warnings[0] in shown.out
    states = {row["name"]: row["state"] for row in json.loads(after.out)}
    assert set(states) == {"trainer-0", "inference-0", "orchestrator", "env-train-math"}
    assert "not started" not in states.values(), states


def test_a_run_on_a_volume_takes_its_model_from_there_and_is_shown_after_its_pods(
    runs: Runs,
) -> None:
    run_id = "run-volume"
    runs.testbed.add_volume(SHARED)
    volume = {"kind": "volume", "cluster": STACK}
    new_stack(runs.site.project, VOLUME, volume)
    runs.site.pulumi("up", "-s", VOLUME)
    folder = claim_folder(runs.testbed, runs.namespace, VOLUME)
    shutil.copytree(ensure_tiny_model(homes.cache_path()), folder / "models" / "tiny")
    subprocess.run(["chmod", "-R", "a+rX", str(folder / "models")], check=True)
    text = small_demo(max_steps=2).replace(models.TINY_MODEL, "/volume/models/tiny")

    printed = runs.up(run_id, text, volume=VOLUME)
    waited = runs.wait(run_id, timeout_s=600)
    runs.destroy(run_id)
    shown = runs.site.paddock("logs", run_id)
    refused = runs.site.pulumi("destroy", "-s", VOLUME, expect=None)

    assert "no file server" not in printed
    assert waited.code == 0, waited.text
    assert waited.err.count("reward") == 2, "rewards come from the volume's file server"
    assert "Orchestrator finished" in shown.out
    assert (folder / "runs" / run_id / "metrics.jsonl").is_file()
    assert not runs.folder(run_id).exists()
    assert refused.code != 0
    assert "protected" in refused.text
    where = ("--namespace", runs.namespace)
    assert runs.testbed.get("pvc", VOLUME, *where)["status"]["phase"] == "Bound"
    assert runs.testbed.get("deployment", f"paddock-files-{VOLUME}", *where)


def test_packages_that_cannot_be_installed_fail_the_run_by_their_name(runs: Runs) -> None:
    run_id = "run-packages"
    runs.up(run_id, small_demo(max_steps=2), environments=json.dumps(["no-such-package==1.0"]))

    waited = runs.wait(run_id, timeout_s=300)

    record = runs.record(run_id)
    assert waited.code == 1, waited.text
    assert record.state is RunState.FAILED
    assert "could not install its environment packages" in record.reason
    assert "no-such-package==1.0" in waited.out
    wait_for(lambda: runs.is_released(run_id), timeout_s=120)
    runs.destroy(run_id)
