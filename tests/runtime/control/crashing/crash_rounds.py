"""Rounds of: dispatch a run to a real server, wish something for it, kill -9 something of it.

Many runs are under way on one server, so what is killed of one is done to its neighbours too. Every
run has to end, be captured and torn down, and nothing may be left. Run by `make crash`, or as
`python -m tests.runtime.control.crashing.crash_rounds --rounds 50 --seed 7`; it prints its seed.
"""

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from runtime.control.store import events, operations, runs
from runtime.control.store.store import Store
from runtime.control.values import StoredRun
from runtime.states import Capture, RunState, Teardown
from tests.runtime.control.crashing.plane import Plane, make_plane
from tests.runtime.control.crashing.rounds import Intent, Round, plan_rounds
from tests.runtime.control.crashing.strikes import strike
from tests.runtime.control.crashing.verdicts import (
    CANARY,
    Played,
    problems_of,
    problems_of_all,
)

AT_ONCE = 6
NUM_WORKERS = 3
ROUND_S = 600.0
"""How long a run may take to be over and torn down; servers die meanwhile."""

BEFORE_RUNNING = frozenset({RunState.QUEUED, RunState.PENDING, RunState.CREATING})
_CAPTURED = frozenset({Capture.DONE, Capture.INCOMPLETE})
_POLL_S = 0.5


@dataclass(kw_only=True)
class Rounds:
    """Rounds that are played on a server, and what they found."""

    plane: Plane
    store: Store
    seed: int
    began: float = field(default_factory=time.monotonic)
    problems: list[str] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def play_safely(self, one: Round) -> None:
        """Play a round and note what is wrong; what a round raises is wrong too."""
        try:
            self._play(one)
        except Exception as error:  # a thread's boundary: the other rounds go on
            with self._lock:
                self.problems.append(f"round {one.number}: {type(error).__name__}: {error}")
                print(f"  {one.number:>4}  {self.problems[-1]}", flush=True)

    def _play(self, one: Round) -> None:
        started = time.monotonic()
        run_id = self._dispatch(one)
        is_over = threading.Event()
        with ThreadPoolExecutor(2) as pool:
            stopping = pool.submit(self._stop, one, run_id, is_over)
            striking = pool.submit(strike, self.plane, one, run_id, is_over)
            try:
                run = self._await_end(run_id)
            finally:
                is_over.set()
            stopping.result()
        hit = striking.result()
        has_lost_server = any(kill > started for kill in self.plane.kills)
        played = Played(one=one, run=run, strike=hit, has_lost_server=has_lost_server)
        self._note(played, problems_of(self.plane, played), time.monotonic() - started)

    def _dispatch(self, one: Round) -> str:
        toml = self.plane.site.write_toml(f"round-{one.number}", one.behaviour)
        body: dict[str, object] = {"configText": toml.read_text()}
        if one.has_secret:
            body["env"] = {"CANARY": CANARY}
        key = f"seed-{self.seed}-round-{one.number}"
        answer = self.plane.ask("POST", "/training/runs", body=body, key=key)
        return str(answer["runId"])

    def _stop(self, one: Round, run_id: str, is_over: threading.Event) -> None:
        if one.intent is not Intent.STOP:
            return
        while one.is_stopped_running and self._run(run_id).state in BEFORE_RUNNING:
            is_over.wait(_POLL_S)
        is_over.wait(one.stop_after_s)
        self.plane.ask("PUT", f"/rft/runs/{run_id}/stop")

    def _run(self, run_id: str) -> StoredRun:
        with self.store.read() as tx:
            run = runs.get_run(tx, run_id)
        assert run is not None, f"{run_id} is not stored any more"
        return run

    def _await_end(self, run_id: str) -> StoredRun:
        deadline = time.monotonic() + ROUND_S
        while time.monotonic() < deadline:
            run = self._run(run_id)
            if run.is_over and run.teardown is Teardown.DONE and run.capture in _CAPTURED:
                return run
            time.sleep(_POLL_S)
        raise AssertionError(f"not over after {ROUND_S:.0f} s: {self._history(run_id)}")

    def _history(self, run_id: str) -> str:
        with self.store.read() as tx:
            run = runs.get_run(tx, run_id)
            newest = operations.get(tx, run_id)
            told = events.list_events(tx, run_id)
        lines = [f"{one.time:%H:%M:%S} {one.kind} {one.state or ''} {one.message}" for one in told]
        if run is not None:
            lines.append(f"now {run.state} ({run.reason}), {run.teardown=!s}, {run.capture=!s}")
        if newest is not None:
            what = f"{newest.kind} {newest.state} at {newest.started_at:%H:%M:%S}"
            lines.append(f"newest {what}, {newest.num_tries} tries: {newest.message}")
        return "\n".join(f"        {line}" for line in lines)

    def _note(self, played: Played, problems: list[str], seconds: float) -> None:
        one, run = played.one, played.run
        hit = played.strike.words if played.strike is not None else "nothing: it was over before"
        with self._lock:
            self.problems += problems
            self.totals[f"killed {one.victim if played.strike is not None else 'nothing'}"] += 1
            self.totals[f"ended {run.state}"] += 1
            print(
                f"  {one.number:>4}  {one.words}: {hit}; {run.state} ({run.reason}), "
                f"{seconds:.1f} s",
                *(f"\n        WRONG {problem}" for problem in problems),
                flush=True,
            )
            if problems:
                print(self._history(run.run_id), flush=True)


def play_all(plane: Plane, *, num_rounds: int, seed: int, at_once: int = AT_ONCE) -> list[str]:
    """Play all rounds on a server that is started and ended here; return what is wrong."""
    print(f"crash: {num_rounds} rounds, seed {seed}, {at_once} at once", flush=True)
    plane.add_user("crash")
    plane.start()
    store = plane.open_store()
    rounds = Rounds(plane=plane, store=store, seed=seed)
    try:
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(rounds.play_safely, plan_rounds(num_rounds, seed)))
        plane.stop()
        rounds.problems += problems_of_all(plane, store, num_rounds=num_rounds)
    finally:
        store.close()
        plane.abandon()
    totals = ", ".join(f"{name} {number}" for name, number in sorted(rounds.totals.items()))
    took_s = time.monotonic() - rounds.began
    verdict = "nothing left" if not rounds.problems else f"{len(rounds.problems)} PROBLEMS"
    print(f"crash: {num_rounds} rounds in {took_s:.0f} s: {totals}; {verdict}", flush=True)
    return rounds.problems


def main() -> None:
    """Play rounds on a server of their own; what went wrong keeps its folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="paddock-crash-"))
    plane = make_plane(folder, num_slots=options.at_once, num_workers=NUM_WORKERS)
    try:
        problems = play_all(
            plane, num_rounds=options.rounds, seed=options.seed, at_once=options.at_once
        )
    finally:
        plane.site.kill_everything()
    if problems:
        sys.exit(f"crash: seed {options.seed}, see {folder}:\n" + "\n".join(problems))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
