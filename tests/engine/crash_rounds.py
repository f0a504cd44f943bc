"""Rounds of: bring a run up, kill -9 one of its processes at a random moment, `paddock destroy`.

After each round no process, zombie, port, slot, socket, private file or lock may be left. Run by
`make crash`, or as `python -m tests.engine.crash_rounds --rounds 50 --seed 7`; it prints its seed.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from runtime.claims import read_claims
from runtime.ports import is_free
from runtime.processes import ProcessId, is_alive, send_signal
from tests.engine.sites import Site, make_site

# A word in which a part of each victim's command line ends; the first three live with the update.
VICTIMS = {
    "engine": "pulumi",
    "language host": "language_host",
    "provider": "pulumi.dynamic",
    "supervisor": "runtime.supervisor",
    "wrapper": "launch/wrapper.py",
    "component": "engine/component.py",
    "engine of the destroy": "pulumi",
}
LONGEST_UP_S = 6.0
SEARCH_LIMIT_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """What is killed when; `delay_s` counts from the start of the update."""

    run_id: str
    behaviour: str
    victim: str
    is_after_up: bool
    delay_s: float


def plan_rounds(num_rounds: int, seed: int) -> list[Round]:
    """Return the rounds that a seed gives."""
    source = random.Random(seed)
    rounds = []
    for number in range(num_rounds):
        victim = source.choice(list(VICTIMS))
        can_be_late = victim in {"supervisor", "wrapper", "component"}
        rounds.append(
            Round(
                run_id=f"crash-{number + 1:03}",
                behaviour=source.choice(["long", "long", "slow"]),
                victim=victim,
                is_after_up=can_be_late and source.random() < 0.5,
                delay_s=source.uniform(0.0, LONGEST_UP_S),
            )
        )
    return rounds


def play(site: Site, one: Round) -> str:
    """Play a round and return what was killed; raises AssertionError for anything left."""
    site.new_run(one.run_id, one.behaviour)
    engine = site.start("pulumi", "up", "--yes", "--skip-preview", "-s", one.run_id)
    killed = ""
    if one.victim == "engine of the destroy":
        engine.communicate(timeout=120)
        killed = _kill_in_destroy(site, one)
    else:
        if one.is_after_up:
            engine.communicate(timeout=120)
        killed = _kill(site, one.victim, engine, delay_s=one.delay_s)
        engine.communicate(timeout=120)  # the one that holds the stack must be over, or dead
    ports = [port for claim in read_claims(site.state) for port in claim.ports]
    site.paddock("destroy", one.run_id)
    site.assert_nothing_left()
    assert site.export(one.run_id) == [], "the state is not empty"
    assert [port for port in ports if not is_free(port)] == [], "ports are in use"
    run = site.local_run(one.run_id)
    assert not run.directory.record.exists() or site.record(one.run_id).is_over
    return killed


def _kill(site: Site, victim: str, engine: "subprocess.Popen[str]", *, delay_s: float) -> str:
    """Kill a process of a kind once the delay is over and there is one; tell which it was."""
    started = time.monotonic()
    time.sleep(delay_s)  # the moment of the kill, not a wait for something
    while time.monotonic() - started < delay_s + SEARCH_LIMIT_S:
        found = _find(site, victim, engine.pid)
        if found:
            process = found[-1]
            send_signal(process, signal.SIGKILL)
            return f"pid {process.pid} after {time.monotonic() - started:.1f} s"
        if engine.poll() is not None:
            break
        time.sleep(0.01)
    return "nothing: there was none any more"


def _kill_in_destroy(site: Site, one: Round) -> str:
    destroy = site.start("paddock", "destroy", one.run_id)
    killed = _kill(site, "engine", destroy, delay_s=one.delay_s / 2)
    destroy.communicate(timeout=120)
    return killed


def _find(site: Site, victim: str, starter: int) -> list[ProcessId]:
    found = []
    for process in sorted(site.processes()):
        try:
            argv = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        is_engine = os.path.basename(argv[0]) == "pulumi"
        if victim == "engine" and not (is_engine and argv[1:2] in (["up"], ["destroy"])):
            continue
        if victim != "engine" and (
            is_engine or not any(word.endswith(VICTIMS[victim]) for word in argv)
        ):
            continue
        if process.pid != starter or victim == "engine":
            found.append(process)
    return [process for process in found if is_alive(process)]


def play_all(site: Site, num_rounds: int, seed: int) -> None:
    """Play all rounds, printing each; raises AssertionError at the first that leaves something."""
    print(f"crash: {num_rounds} rounds, seed {seed}", flush=True)
    for number, one in enumerate(plan_rounds(num_rounds, seed), start=1):
        started = time.monotonic()
        when = "after up" if one.is_after_up else "in mid-up"
        where = "in mid-destroy" if one.victim == "engine of the destroy" else when
        killed = play(site, one)
        record = site.local_run(one.run_id).directory.record
        state = site.record(one.run_id).state if record.exists() else "no record"
        print(
            f"  {number:>3}  {one.behaviour:<5} kill -9 {one.victim} {where}: {killed}; "
            f"{state}, nothing left, "
            f"{time.monotonic() - started:.1f} s",
            flush=True,
        )


def main() -> None:
    """Play rounds on a cluster of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="paddock-crash-") as folder:
        site = make_site(Path(folder))
        site.pulumi("up", "-s", site.cluster)
        try:
            play_all(site, options.rounds, options.seed)
        except AssertionError as error:
            sys.exit(f"crash: seed {options.seed}: {error}")
        finally:
            site.kill_everything()
    print(f"crash: {options.rounds} rounds in {time.monotonic() - started:.0f} s, nothing left")


if __name__ == "__main__":
    main()
