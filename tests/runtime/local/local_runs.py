"""Local runs of two-second programs behind the real supervisor and wrapper."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from runtime import supervisor_client as client
from runtime.local_state import LocalRun, create_state
from runtime.observe.local import run_processes
from runtime.plan import GpuPool, RunPlan, plan_to_json
from runtime.record import RunRecord, read_record
from runtime.supervisor_client import StartRun
from tests.waiting import wait_for, zombies

PREPARE = f"{Path(__file__).parents[2] / 'data/local/prepare_programs.py'}:prepare"

SERVER = "import time; print('serving', flush=True); time.sleep(600)"
ORCHESTRATOR = "import time; time.sleep({s}); print('Orchestrator finished.')"
TRAINER = "import time; time.sleep({s}); print('RL trainer finished!')"


def programs(**changed: str) -> dict[str, str]:
    """Return the programs of the four components; a run of them takes half a second."""
    names = {"inference_0": "inference-0", "env_train_math": "env-train-math"}
    made = {
        "inference-0": SERVER,
        "env-train-math": SERVER,
        "orchestrator": ORCHESTRATOR.format(s=0.5),
        "trainer-0": TRAINER.format(s=0.7),
    }
    return made | {names.get(name, name.replace("_", "-")): code for name, code in changed.items()}


ENDLESS = {"orchestrator": SERVER, "trainer_0": SERVER}


class Local:
    """A local cluster in a temporary folder, and the runs that a test starts on it."""

    def __init__(self, path: Path, *, num_slots: int = 4) -> None:
        self.state = path / "state"
        self.runs_path = path / "runs"
        self.started: list[LocalRun] = []
        create_state(self.state, devices=("",) * num_slots)

    def run(self, run_id: str = "run-one", attempt: int = 1) -> LocalRun:
        return LocalRun(
            state_path=self.state,
            run_path=self.runs_path / run_id,
            run_id=run_id,
            attempt=attempt,
        )

    def request(
        self,
        run: LocalRun,
        codes: Mapping[str, str] | None = None,
        *,
        num_slots: int = 2,
        digest: str = "d1",
        timeout_s: float = 60.0,
    ) -> StartRun:
        codes = programs() if codes is None else codes
        run.directory.configs.mkdir(parents=True, exist_ok=True)
        argv = {name: [sys.executable, "-I", "-c", code] for name, code in codes.items()}
        (run.directory.configs / "programs.json").write_text(json.dumps(argv))
        run.directory.plan.write_text(plan_to_json(plan_of(run)))
        self.started.append(run)
        return StartRun(
            run=run,
            config_digest=digest,
            num_slots=num_slots,
            num_ports=len(codes),
            prepare=PREPARE,
            request_timeout_s=timeout_s,
        )

    def up(
        self,
        codes: Mapping[str, str] | None = None,
        *,
        run_id: str = "run-one",
        secret_env: Mapping[str, str] | None = None,
        num_slots: int = 2,
    ) -> LocalRun:
        run = self.run(run_id)
        request = self.request(run, codes, num_slots=num_slots)
        client.start_run(request)
        for name in codes or programs():
            client.start_component(run, name, secret_env or {})
        return run

    def record(self, run: LocalRun) -> RunRecord:
        found = read_record(run.directory.record)
        assert found is not None
        return found

    def until_over(self, run: LocalRun, *, timeout_s: float = 60.0) -> RunRecord:
        wait_for(lambda: self.record(run).is_over, timeout_s=timeout_s)
        return self.record(run)

    def leftovers(self, run: LocalRun) -> list[object]:
        """Return what the run still owns on this machine; nothing when all is well."""
        files = [
            path
            for folder in ("runs", "private", "sockets")
            for path in (self.state / folder).iterdir()
            if path.name.startswith(run.run_id)
        ]
        claims = json.loads((self.state / "claims.json").read_text())
        held = [claim for claim in claims if claim["run_id"] == run.run_id]
        return [*run_processes(run), *files, *held, *zombies()]


def plan_of(run: LocalRun) -> RunPlan:
    return RunPlan(
        run_id=run.run_id,
        attempt=run.attempt,
        name=run.run_id,
        config_digest="d1",
        deployment="single_node",
        target="local",
        image_tag="main",
        pool=GpuPool(gpu_type=None, num_nodes=1, gpus_per_node=2, exclusive_nodes=False),
        roles=(),
        model="tiny",
        tasksets=(),
        max_steps=3,
        weight_broadcast="filesystem",
        rollout_transport="filesystem",
        checkpoints=False,
        price_usd_per_hour=None,
    )
