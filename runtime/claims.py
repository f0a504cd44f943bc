"""Claims of a local cluster: which run holds which slots and which block of ports.

All claims are one file, changed under one lock, so those of concurrent runs are disjoint. A claim
whose owner is dead counts for as long as a process with the run's mark lives; then it is dropped.
A cluster's state directory goes under that lock too, since a claim is what keeps it.
Called by the supervisor, its client and the local cluster's provider.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from runtime import naming
from runtime.errors import Problem, RefusedError, StackError
from runtime.local_state import (
    LocalRun,
    file_lock,
    home_id,
    list_runs,
    read_cluster,
    read_json,
    write_json,
)
from runtime.ports import find_block
from runtime.processes import ProcessId, is_alive, marked_processes


class Claim(BaseModel):
    """What one attempt of a run holds; `owner` is its supervisor, at first who starts it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    attempt: int
    slots: tuple[int, ...]
    base_port: int
    num_ports: int
    owner: ProcessId

    @property
    def ports(self) -> range:
        """Return the block of ports."""
        return range(self.base_port, self.base_port + self.num_ports)


_CLAIMS = TypeAdapter(list[Claim])


def claim(run: LocalRun, *, num_slots: int, num_ports: int, owner: ProcessId) -> Claim:
    """Claim slots and a port block for an attempt; what it holds already is kept.

    Raises RefusedError, naming free and needed, when they do not fit.
    """
    read_cluster(run.state_path)  # where there is none there is no folder for the lock
    with _changed(run.state_path) as claims:
        devices = read_cluster(run.state_path).devices  # it may have gone before the lock was ours
        held = _find(claims, run)
        if held is not None and len(held.slots) == num_slots and held.num_ports == num_ports:
            claims.remove(held)
            claims.append(held.model_copy(update={"owner": owner}))
            return claims[-1]
        if held is not None:
            claims.remove(held)
        used = {slot for other in claims for slot in other.slots}
        free = [slot for slot in range(len(devices)) if slot not in used]
        if len(free) < num_slots:
            raise RefusedError([_does_not_fit(num_slots, len(free), len(devices), claims)])
        base_port = find_block(
            num_ports,
            taken=[other.ports for other in claims],
            start=int(home_id(run.state_path), 16) + sum(other.num_ports for other in claims),
        )
        made = Claim(
            run_id=run.run_id,
            attempt=run.attempt,
            slots=tuple(free[:num_slots]),
            base_port=base_port,
            num_ports=num_ports,
            owner=owner,
        )
        claims.append(made)
        return made


def hand_over(run: LocalRun, owner: ProcessId) -> Claim | None:
    """Make another process the owner of the attempt's claim and return it, None without one."""
    with _changed(run.state_path) as claims:
        held = _find(claims, run)
        if held is None:
            return None
        claims.remove(held)
        claims.append(held.model_copy(update={"owner": owner}))
        return claims[-1]


def release(run: LocalRun) -> None:
    """Drop the claims of the run up to this attempt; none is no error."""
    if not (run.state_path / "cluster.json").exists():
        return
    with _changed(run.state_path) as claims:
        claims[:] = [
            held for held in claims if held.run_id != run.run_id or held.attempt > run.attempt
        ]


def read_claims(state_path: Path) -> tuple[Claim, ...]:
    """Return the claims that count."""
    if not (state_path / "cluster.json").exists():
        return ()
    with _changed(state_path) as claims:
        return tuple(claims)


def devices_of(state_path: Path, claim: Claim) -> tuple[str, ...]:
    """Return the device of each claimed slot: a CUDA id, or "" for a CPU slot."""
    devices = read_cluster(state_path).devices
    return tuple(devices[slot] for slot in claim.slots if slot < len(devices))


def remove_state(state_path: Path) -> None:
    """Remove the state directory; one that is gone is no error.

    Raises StackError while a run lives in it or holds any of its slots.
    """
    if not (state_path / "cluster.json").exists():
        return
    with file_lock(state_path / "lock"):
        live = {entry.run_id for entry in list_runs(state_path) if entry.is_supervised}
        names = sorted(live | {held.run_id for held in _counting(state_path, _stored(state_path))})
        if names:
            raise StackError(
                f"{state_path}: {', '.join(names)} still run on this cluster: "
                f"`paddock destroy {names[0]}` first"
            )
        shutil.rmtree(state_path)


@contextmanager
def _changed(state_path: Path) -> Iterator[list[Claim]]:
    """Yield the claims that count, and write them back when the block ends well."""
    with file_lock(state_path / "lock"):
        before = _stored(state_path)
        claims = _counting(state_path, before)
        yield claims
        if claims != before:
            write_json(state_path / "claims.json", [held.model_dump() for held in claims])


def _stored(state_path: Path) -> list[Claim]:
    return _CLAIMS.validate_python(read_json(state_path / "claims.json") or [])


def _counting(state_path: Path, claims: list[Claim]) -> list[Claim]:
    return [held for held in claims if not _is_stale(state_path, held)]


def _is_stale(state_path: Path, held: Claim) -> bool:
    if is_alive(held.owner):
        return False
    mark = naming.run_mark(home_id(state_path), held.run_id, held.attempt).encode()
    name = naming.ENV_RUN_MARK.encode()
    return not marked_processes(lambda environment: environment.get(name) == mark)


def _find(claims: list[Claim], run: LocalRun) -> Claim | None:
    for held in claims:
        if (held.run_id, held.attempt) == (run.run_id, run.attempt):
            return held
    return None


def _does_not_fit(needed: int, free: int, total: int, claims: list[Claim]) -> Problem:
    holding = sorted((held.run_id, len(held.slots)) for held in claims if held.slots)
    holders = ", ".join(f"{run_id} holds {num_slots}" for run_id, num_slots in holding)
    if needed > total:
        fix = "lower [deployment], or give the cluster stack more slots"
    else:
        fix = "wait for a run to end, or `paddock stop` one"
    return Problem(
        loc=("deployment",),
        message=f"needs {needed} slots, {free} of {total} are free"
        + (f" ({holders})" if holders else ""),
        fix=fix,
        code="capacity",
    )
