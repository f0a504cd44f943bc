"""The hosted example on a server of this machine, dispatched by both clients and run to its end."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from runtime import models
from runtime.commands.models import make_tiny_model
from tests.engine.sites import ROOT, Result, Site, make_site
from tests.runtime.control.operating.served import Served, dispatch, read_run, serving
from tests.runtime.control.prime.client import Prime, Said, prime_program
from tests.waiting import wait_for

MAX_STEPS, INTERVAL = 4, 2
BATCH_SIZE = 64
PRICE, CREDIT = "36", "1000"
"""Dollars an hour of a slot: a second of a run's two is two cents."""

CHANGES = {
    'name = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"': f'name = "{models.TINY_MODEL}"',
    "lr = 3e-6": "lr = 5e-5",
    "max_completion_tokens = 512": "max_completion_tokens = 16",
    "max_steps = 100": f"max_steps = {MAX_STEPS}",
}
LOOK_S = 0.2
END_S = 600.0
TEARDOWN_S = 300.0


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A server whose runs of both clients are over and torn down; `states` are of the first."""

    served: Served
    prime: Prime
    run_id: str
    other_id: str
    states: list[str]
    _answers: dict[tuple[str, ...], Said] = field(default_factory=dict)

    def prime_train(self, command: str, *words: str) -> Said:
        """Ask the client about the first run, once: what is over does not change."""
        asked = (command, *words)
        if asked not in self._answers:
            said = self.prime("train", command, self.run_id, *words)
            assert said.code == 0, said.out + said.err
            self._answers[asked] = said
        return self._answers[asked]

    def prime_json(self, command: str, *words: str) -> Any:  # noqa: ANN401 - as it comes
        """Return what the client prints as JSON about the first run."""
        return json.loads(self.prime_train(command, *words).out)

    def paddock(self, *words: str) -> Result:
        """Run `paddock` as the same user."""
        return paddock(self.served, self.prime, *words)


@contextmanager
def open_finished(folder: Path) -> Iterator[Finished]:
    """Dispatch the example with each client, and wait until both runs are over and torn down."""
    site = make_site(folder, extra={"PADDOCK_PREPARE": ""})
    models.add_model(models.TINY_MODEL, make_tiny_model(), site.environment["PADDOCK_CACHE"])
    site.pulumi("config", "set", "paddock:priceUsdPerHour", PRICE, "-s", site.cluster)
    site.pulumi("up", "-s", site.cluster)
    toml = write_example(site.folder / "rl.toml")
    try:
        with serving(site) as served:
            prime = served.client("ada", program=prime_program())
            site.paddock("wallet", "credit", "ada", CREDIT)
            run_id = dispatch(prime, toml)
            states = until_over(prime, run_id)
            assert states[-1] == "COMPLETED", words(site, served, run_id)
            made = paddock(served, prime, "train", str(toml), "-o", "json")
            other_id = json.loads(made.out)["run"]["runId"]
            assert until_over(prime, other_id)[-1] == "COMPLETED", words(site, served, other_id)
            for one in (run_id, other_id):
                wait_for(lambda one=one: is_torn_down(prime, one), timeout_s=TEARDOWN_S)
            yield Finished(
                served=served, prime=prime, run_id=run_id, other_id=other_id, states=states
            )
        site.assert_nothing_left()
    finally:
        site.kill_everything()


def write_example(path: Path) -> Path:
    """Write the hosted service's example with the demo's values, fewer steps and checkpoints."""
    text = (ROOT / "examples" / "reverse-text.toml").read_text()
    for old, new in CHANGES.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(f"{text}\n[ckpt]\ninterval = {INTERVAL}\n")
    return path


def paddock(served: Served, prime: Prime, *words: str) -> Result:
    """Run `paddock` against the server as the client's user."""
    key = {"PADDOCK_SERVER": served.url, "PADDOCK_API_KEY": prime.token}
    return served.site.paddock(*words, expect=0, **key)


def until_over(prime: Prime, run_id: str) -> list[str]:
    """Return the states that a run was seen in until its end."""
    seen: list[str] = []

    def is_over() -> bool:
        time.sleep(LOOK_S)
        state = str(read_run(prime, run_id)["status"])
        seen.extend([state] if state not in seen else [])
        return state in {"COMPLETED", "FAILED", "STOPPED"}

    wait_for(is_over, timeout_s=END_S)
    return seen


def is_torn_down(prime: Prime, run_id: str) -> bool:
    """Tell whether a run is captured and its stack is gone."""
    time.sleep(LOOK_S)
    found = read_run(prime, run_id)
    return (found["teardown"], found["capture"]) == ("done", "done")


def words(site: Site, served: Served, run_id: str) -> str:
    """Return what is known of a run, for a failed assertion."""
    logs = sorted((site.project.path / "runs" / run_id / "logs").rglob("*.log"))
    tails = [f"--- {one.name}\n{one.read_text(errors='replace')[-1500:]}" for one in logs]
    return "\n".join([*served.lines[-40:], *tails])


def moment(text: str) -> datetime:
    """Read a time as the client prints it."""
    return datetime.fromisoformat(text)
