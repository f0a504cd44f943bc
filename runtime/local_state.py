"""The state directory of a local cluster: which runs live here, their private files and sockets.

    <state>/                     0700
      cluster.json               the slots of the cluster
      claims.json lock           slots and port blocks in use (`runtime.claims`)
      runs/<run_id>.json         index of the live runs
      locks/<run_id>.lock        held while a run is started or released; gone once destroyed
      locks/<run_id>.<attempt>.supervisor   held by the attempt's one supervisor; likewise
      barred/<run_id>.json       the attempt that may not start again, where no record can say so
      private/<run_id>.<attempt>/<component>.json   0600 env files, gone once read
      sockets/<run_id>.<attempt>.sock
      logs/<run_id>-<attempt>.log   what a supervisor itself prints

Nothing here starts or ends a process. Called by the supervisor, its client, the local cluster's
provider and the local observer.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from runtime import naming
from runtime.artifacts import RunDirectory
from runtime.errors import NotFoundError
from runtime.processes import ProcessId, is_alive

_FOLDERS = ("runs", "locks", "barred", "private", "sockets", "logs")


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalRun:
    """One attempt of a run on the local target: what addresses it on this machine."""

    state_path: Path
    run_path: Path
    run_id: str
    attempt: int

    @property
    def directory(self) -> RunDirectory:
        """Return the run directory."""
        return RunDirectory(self.run_path)

    @property
    def mark(self) -> str:
        """Return the environment mark of the attempt's processes."""
        return naming.run_mark(home_id(self.state_path), self.run_id, self.attempt)

    @property
    def socket_name(self) -> str:
        """Return the file name of the supervisor's socket in the sockets folder."""
        return f"{self.run_id}.{self.attempt}.sock"

    @property
    def private(self) -> Path:
        """Return the 0700 folder of the attempt's env files."""
        return self.state_path / "private" / f"{self.run_id}.{self.attempt}"

    @property
    def supervisor_log(self) -> Path:
        """Return the file that the supervisor's own output goes to."""
        return self.state_path / "logs" / f"{self.run_id}-{self.attempt}.log"


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class IndexEntry(_Stored):
    """A live run of this machine: where it is, and who supervises it."""

    run_id: str
    run_path: str
    attempt: int
    config_digest: str
    supervisor: ProcessId | None = None

    @property
    def is_supervised(self) -> bool:
        """Tell whether the supervisor lives."""
        return self.supervisor is not None and is_alive(self.supervisor)


class LocalCluster(_Stored):
    """What a state directory offers: one device a slot, a CUDA id or "" for a CPU slot."""

    devices: tuple[str, ...]


def home_id(state_path: Path) -> str:
    """Return the name of a state directory in environment marks; it tells two of them apart."""
    return hashlib.sha256(os.path.realpath(state_path).encode()).hexdigest()[:12]


def create_state(state_path: Path, *, devices: tuple[str, ...]) -> None:
    """Make the state directory of a local cluster, or change the slots of an existing one.

    `devices` has one entry a slot: a CUDA device id, or "" for a CPU slot.
    """
    state_path.mkdir(mode=0o700, parents=True, exist_ok=True)
    state_path.chmod(0o700)
    for folder in _FOLDERS:
        (state_path / folder).mkdir(mode=0o700, exist_ok=True)
    write_json(state_path / "cluster.json", LocalCluster(devices=devices).model_dump())


def read_cluster(state_path: Path) -> LocalCluster:
    """Return what the state directory offers; raises NotFoundError where there is none."""
    data = read_json(state_path / "cluster.json")
    if data is None:
        raise NotFoundError(
            f"{state_path} is no state directory of a local cluster: `pulumi up` its cluster stack"
        )
    return LocalCluster.model_validate(data)


def list_runs(state_path: Path) -> tuple[IndexEntry, ...]:
    """Return the index entries of all runs, sorted by run id."""
    folder = state_path / "runs"
    names = sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []
    entries = (read_index(state_path, name) for name in names)
    return tuple(entry for entry in entries if entry is not None)


def read_index(state_path: Path, run_id: str) -> IndexEntry | None:
    """Return the index entry of a run, None where it is not live here."""
    data = read_json(state_path / "runs" / f"{run_id}.json")
    try:
        return IndexEntry.model_validate(data) if data is not None else None
    except ValidationError:
        return None


def write_index(state_path: Path, entry: IndexEntry) -> None:
    """Write the index entry of a run."""
    write_json(state_path / "runs" / f"{entry.run_id}.json", entry.model_dump())


def remove_index(run: LocalRun) -> None:
    """Remove the attempt's index entry; that of a newer attempt stays."""
    entry = read_index(run.state_path, run.run_id)
    if entry is not None and entry.attempt <= run.attempt:
        (run.state_path / "runs" / f"{run.run_id}.json").unlink(missing_ok=True)


def barred_attempt(state_path: Path, run_id: str) -> int:
    """Return the highest attempt that may not start any more, 0 where none is barred."""
    data = read_json(state_path / "barred" / f"{run_id}.json")
    return int(data["attempt"]) if isinstance(data, dict) else 0


def bar_attempt(run: LocalRun) -> None:
    """Bar this and every earlier attempt of the run from starting."""
    attempt = max(run.attempt, barred_attempt(run.state_path, run.run_id))
    write_json(run.state_path / "barred" / f"{run.run_id}.json", {"attempt": attempt})


@contextlib.contextmanager
def run_lock(run: LocalRun) -> Iterator[None]:
    """Hold the lock under which a run is started and released."""
    with file_lock(_run_lock(run)):
        yield


def supervise_alone(run: LocalRun) -> bool:
    """Take the lock that an attempt's supervisor holds until it dies; tell whether it was free."""
    try:
        _open_locked(_supervisor_lock(run, run.attempt), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_locks(run: LocalRun) -> None:
    """Remove the lock files of a run up to this attempt; one that somebody holds stays."""
    paths = [_supervisor_lock(run, attempt) for attempt in range(1, run.attempt + 1)]
    for path in (*paths, _run_lock(run)):
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            flags = fcntl.LOCK_EX | fcntl.LOCK_NB
            descriptor = _open_locked(path, flags, is_made=False)
            path.unlink()  # held to the end: whoever waits for it finds that it is no more
            os.close(descriptor)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold an exclusive flock on a file that is made where it is missing; a dead holder lets go."""
    descriptor = _open_locked(path, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def _open_locked(path: Path, lock: int, *, is_made: bool = True) -> int:
    """Return a descriptor that holds the lock of the file that has this path now.

    A file that was removed while it was waited for has a lock that nobody else sees.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if is_made else 0)
    while True:
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, lock)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _run_lock(run: LocalRun) -> Path:
    return run.state_path / "locks" / f"{run.run_id}.lock"


def _supervisor_lock(run: LocalRun, attempt: int) -> Path:
    return run.state_path / "locks" / f"{run.run_id}.{attempt}.supervisor"


def read_json(path: Path) -> object:
    """Return the JSON of a file, None where the file is missing or torn."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def write_json(path: Path, data: object) -> None:
    """Write JSON to a 0600 file in one step, so that no reader sees half of it."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(data, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
