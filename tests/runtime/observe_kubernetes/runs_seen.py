"""Runs as observers see them: objects that a real cluster gave, and facts made for a table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.observe.kubernetes.facts import (
    ContainerFact,
    ContainerState,
    JobFact,
    PodFact,
    RunFacts,
    WrapperEnd,
)
from runtime.observe.kubernetes.launched import LaunchedPod, LaunchedRun
from runtime.run_record import RunRecord
from runtime.states import RunState

SEEN: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[2] / "data" / "kubernetes" / "seen.json").read_text()
)
"""Pods, Jobs and events of Kubernetes 1.37 on the testbed, without what no fact is read from."""

NOW = 10_000.0
RUN = LaunchedRun(
    run_id="run-one",
    attempt=1,
    max_steps=100,
    pods=tuple(
        LaunchedPod(key=key, component=name, role=role, log=f"{name}.log", source=source)
        for key, name, role, source in (
            ("inference-0-0", "inference-0", "inference", ""),
            ("env-train-math-0-0", "env-train-math", "env", "math"),
            ("orchestrator-0-0", "orchestrator", "orchestrator", ""),
            ("trainer-0-0", "trainer-0", "trainer", ""),
            ("trainer-0-1", "trainer-1", "trainer", ""),
        )
    ),
)


def record(state: RunState = RunState.RUNNING) -> RunRecord:
    """Return the record of the run in a state."""
    return RunRecord(run_id="run-one", config_digest="d", attempt=1, state=state)


def end(outcome: str, reason: str = "", **changes: Any) -> WrapperEnd:  # noqa: ANN401 - any field of the fact
    """Return what a wrapper says at its end."""
    return WrapperEnd(outcome=outcome, reason=reason, **changes)


def main(
    state: ContainerState = "running",
    *,
    word: WrapperEnd | None = None,
    **changes: Any,  # noqa: ANN401 - any field of the fact
) -> ContainerFact:
    """Return the main container; one with a wrapper's word has ended, by default just now."""
    if word is not None:
        changes = {"finished": NOW - 1, "exit_code": 0, **changes}
        return ContainerFact(name="main", state="terminated", end=word, **changes)
    return ContainerFact(name="main", state=state, **changes)


def pod(key: str, *containers: ContainerFact, **changes: Any) -> PodFact:  # noqa: ANN401 - any field of the fact
    """Return a pod of the run; without containers its component runs."""
    group = key.rsplit("-", 1)[0]
    made = PodFact(
        name=f"run-one-1-{key}-abcde",
        uid=key,
        run_id="run-one",
        attempt=1,
        key=key,
        job=f"run-one-1-{group}",
        node="node-7",
        phase="Running",
        created=NOW - 900,
        is_scheduled=True,
        containers=containers or (main(),),
    )
    return replace(made, **changes)


def facts(*changed: PodFact, without: str = "", **changes: Any) -> RunFacts:  # noqa: ANN401 - any field of the fact
    """Return the facts of the run: all its pods run, but for those that are given."""
    pods = {one.key: pod(one.key) for one in RUN.pods} | {one.key: one for one in changed}
    pods.pop(without, None)
    jobs = changes.pop("jobs", None) or tuple(job(key) for key in pods)
    found = RunFacts(run_id="run-one", attempt=1, time=NOW, pods=tuple(pods.values()), jobs=jobs)
    return replace(found, **changes)


def job(key: str, **changes: Any) -> JobFact:  # noqa: ANN401 - any field of the fact
    """Return the Job of a pod."""
    name = f"run-one-1-{key.rsplit('-', 1)[0]}"
    return replace(JobFact(name=name, uid=name, run_id="run-one", attempt=1), **changes)
