"""Slots and ports of concurrent runs are disjoint, and those of the dead are free again."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import pytest

from runtime import claims, naming, ports
from runtime.errors import NotFoundError, RefusedError, StackError
from runtime.local_state import (
    IndexEntry,
    LocalRun,
    create_state,
    file_lock,
    read_index,
    write_index,
)
from runtime.processes import ProcessId, identify, this_process

DEAD = ProcessId(1 << 22, 1)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    create_state(path, devices=("", "", "", ""))
    return path


def run_of(state: Path, run_id: str, attempt: int = 1) -> LocalRun:
    return LocalRun(
        state_path=state, run_path=state.parent / run_id, run_id=run_id, attempt=attempt
    )


def take(run: LocalRun, num_slots: int = 1, owner: ProcessId | None = None) -> claims.Claim:
    return claims.claim(run, num_slots=num_slots, num_ports=3, owner=owner or this_process())


def test_the_state_directory_is_private(state: Path):
    modes = {path.stat().st_mode & 0o777 for path in (state, *state.iterdir()) if path.is_dir()}

    assert modes == {0o700}


def test_concurrent_claims_are_disjoint(state: Path):
    runs = [run_of(state, f"run-{number}") for number in range(4)]

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(take, runs))

    assert {claim.slots for claim in made} == {(0,), (1,), (2,), (3,)}
    assert all(set(a.ports).isdisjoint(b.ports) for a, b in combinations(made, 2))


def test_a_run_that_does_not_fit_is_told_free_and_needed(state: Path):
    take(run_of(state, "run-one"), num_slots=3)

    with pytest.raises(RefusedError, match=r"needs 2 slots, 1 of 4 are free \(run-one holds 3\)"):
        take(run_of(state, "run-two"), num_slots=2)


def test_claiming_again_keeps_what_is_held(state: Path):
    first = take(run_of(state, "run-one"), num_slots=4)

    assert take(run_of(state, "run-one"), num_slots=4) == first


def test_a_claim_of_a_dead_owner_is_dropped(state: Path):
    take(run_of(state, "run-one"), num_slots=4, owner=DEAD)

    assert take(run_of(state, "run-two"), num_slots=4).slots == (0, 1, 2, 3)


def test_a_claim_counts_while_a_process_carries_its_mark(state: Path):
    run = run_of(state, "run-one")
    take(run, num_slots=4, owner=DEAD)
    sleeper = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        env={naming.ENV_RUN_MARK: run.mark},
    )

    try:
        with pytest.raises(RefusedError):
            take(run_of(state, "run-two"))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert take(run_of(state, "run-two")).slots == (0,)


def test_releasing_spares_a_newer_attempt(state: Path):
    take(run_of(state, "run-one", attempt=2))

    claims.release(run_of(state, "run-one", attempt=1))

    assert [claim.attempt for claim in claims.read_claims(state)] == [2]


def test_removing_the_state_is_refused_while_a_run_lives(state: Path):
    entry = IndexEntry(
        run_id="run-one", run_path="/", attempt=1, config_digest="d", supervisor=this_process()
    )
    write_index(state, entry)

    with pytest.raises(StackError, match="run-one still run"):
        claims.remove_state(state)

    assert read_index(state, "run-one") == entry


def test_removing_the_state_is_refused_while_a_run_holds_a_slot(state: Path):
    held = take(run_of(state, "run-one"))

    with pytest.raises(StackError, match=r"run-one still run .* `paddock destroy run-one` first"):
        claims.remove_state(state)

    assert claims.read_claims(state) == (held,)


def test_removing_the_state_waits_for_who_changes_claims(state: Path):
    with ThreadPoolExecutor(1) as pool:
        with file_lock(state / "lock"):
            removal = pool.submit(claims.remove_state, state)
            with pytest.raises(TimeoutError):
                removal.result(0.2)
            assert state.exists()
        removal.result(10)

    assert not state.exists()


def test_removing_the_state_twice_is_no_error(state: Path):
    claims.remove_state(state)
    claims.remove_state(state)

    assert not state.exists()


def test_a_folder_that_is_no_state_is_said_so(tmp_path: Path):
    with pytest.raises(NotFoundError, match="no state directory"):
        take(run_of(tmp_path, "run-one"))


def test_a_reused_pid_is_another_process():
    own = this_process()

    assert identify(os.getpid()) == own
    assert ProcessId(own.pid, own.start_ticks + 1) != own


def test_ports_lie_outside_the_ephemeral_range(tmp_path: Path):
    ephemeral = tmp_path / "range"

    ephemeral.write_text("32768\t60999\n")
    assert ports.port_range(ephemeral) == range(10_000, 32_768)
    ephemeral.write_text("1024\t50000\n")
    assert ports.port_range(ephemeral) == range(50_001, 65_536)


@pytest.fixture
def free_port() -> int:
    return ports.find_block(1, taken=[], start=os.getpid() * 7)


@pytest.fixture(
    params=[
        (socket.AF_INET, "127.0.0.1", 0),
        (socket.AF_INET6, "::1", 1),
        (socket.AF_INET6, "::", 1),
        (socket.AF_INET6, "::", 0),
    ],
    ids=["ipv4", "ipv6-loopback", "ipv6-only", "dual"],
)
def listener(request: pytest.FixtureRequest, free_port: int) -> Iterator[int]:
    family, address, only_ipv6 = request.param
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_ipv6)
        bound.bind((address, free_port))
        bound.listen()
        yield free_port


def test_a_port_with_any_listener_is_used(listener: int):
    assert not ports.is_free(listener)


def test_a_port_in_time_wait_is_used(free_port: int):
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", free_port))
        server.listen()
        client = socket.create_connection(("127.0.0.1", free_port))
        accepted, _ = server.accept()
        accepted.close()  # the side that closes first stays in TIME_WAIT
        client.recv(1)
        client.close()

    assert not ports.is_free(free_port)


def test_a_held_port_is_taken_from_nobody(free_port: int):
    held = ports.hold_port(free_port)

    assert not ports.is_free(free_port)
    ports.release_port(held)
    assert ports.is_free(free_port)


def test_a_block_skips_a_port_that_is_used(listener: int):
    base = ports.find_block(3, taken=[], start=listener - 1 - ports.port_range()[0])

    assert listener not in range(base, base + 3)
