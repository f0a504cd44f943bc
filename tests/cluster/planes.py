"""A server of real pods and a user of it, for tests: runs are dispatched, read and waited for."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.states import RunState, is_terminal
from tests.cluster.runs import START_S, Runs, open_runs
from tests.engine.sites import Result
from tests.runtime.control.operating.served import Served, read_run, serving
from tests.runtime.control.prime.client import Prime, prime_program
from tests.testbed.cluster import Testbed
from tests.waiting import wait_for

ENV = "reverse-text"
CREDIT = "1000"
LOOK_S = 0.2
END_S = 900.0
TEARDOWN_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A server of a lab, and a user of it with both clients."""

    lab: Runs
    served: Served
    prime: Prime

    def paddock(self, *words: str, **extra: str) -> Result:
        """Run `paddock` as the user."""
        key = {"PADDOCK_SERVER": self.served.url, "PADDOCK_API_KEY": self.prime.token}
        return self.lab.site.paddock(*words, expect=0, **key, **extra)

    def found(self, command: str, run_id: str) -> dict[str, Any]:
        """Return what a command prints of a run as JSON, with paddock's own fields."""
        return json.loads(self.paddock("train", command, run_id, "-o", "json").out)

    def logs(self, run_id: str, *flags: str) -> list[str]:
        """Return the lines that `prime train logs` prints."""
        said = self.prime("train", "logs", run_id, "-n", "5000", "--raw", *flags)
        assert said.code == 0, said.out + said.err
        return said.out.splitlines()

    def live_logs(self, run_id: str) -> tuple[list[str], list[str]]:
        """Wait until orchestrator and env server of a run work, and return what they say."""

        def found() -> tuple[list[str], list[str]] | None:
            logs = self.logs(run_id), self.logs(run_id, "--env", ENV)
            words = (" Step 1 ", "Serving reverse-text")
            pairs = zip(words, logs, strict=True)
            return logs if all(word in "\n".join(lines) for word, lines in pairs) else None

        logs = wait_for(found, timeout_s=START_S)
        assert logs is not None
        return logs

    def until(self, run_id: str, state: RunState, *, timeout_s: float) -> None:
        """Wait until the server says a state; an end that is another one is an error."""

        def is_there() -> bool:
            time.sleep(LOOK_S)
            seen = RunState(read_run(self.prime, run_id)["status"])
            assert seen is state or not is_terminal(seen), self.words(run_id)
            return seen is state

        wait_for(is_there, timeout_s=timeout_s)

    def until_torn_down(self, run_id: str) -> None:
        """Wait until a run is captured and its stack is gone."""

        def is_down() -> bool:
            time.sleep(LOOK_S)
            run = read_run(self.prime, run_id)
            return (run["teardown"], run["capture"]) == ("done", "done")

        wait_for(is_down, timeout_s=TEARDOWN_S)

    def words(self, run_id: str) -> str:
        """Return what is known of a run, for a failed assertion."""
        return "".join([*self.served.lines[-40:], self.lab.words(run_id)])


@contextmanager
def open_plane(testbed: Testbed, folder: Path, **settings: object) -> Iterator[Plane]:
    """Serve a cluster with its own home, backend and namespace to a user who can pay."""
    with open_runs(testbed, folder, **settings) as lab, serving(lab.site) as served:
        prime = served.client("ada", program=prime_program())
        lab.site.paddock("wallet", "credit", "ada", CREDIT)
        yield Plane(lab=lab, served=served, prime=prime)


def write_toml(plane: Plane, name: str, text: str) -> Path:
    """Write a run's TOML."""
    path = plane.lab.site.folder / name
    path.write_text(text)
    return path


def nothing_is_left(plane: Plane, run_id: str, state: RunState) -> None:
    """See that a run holds nothing, is kept by its record, and has cost something."""
    lab = plane.lab
    assert lab.left(run_id) == []
    assert lab.record(run_id).state is state
    assert run_id not in lab.site.pulumi("stack", "ls").out
    held = [one for one in lab.api.list("Pod") if one["status"].get("phase") == "Running"]
    labels = [one["metadata"].get("labels", {}) for one in held]
    assert [one for one in labels if "paddock.dev/run" in one] == [], "GPUs are held"
    usage = plane.found("usage", run_id)
    told = json.loads(plane.prime("train", "usage", run_id, "-o", "json").out)
    assert usage["gpu_hours"] > 0
    assert usage["total_cost_microusd"] > 0
    assert told["total_cost_usd"] > 0
