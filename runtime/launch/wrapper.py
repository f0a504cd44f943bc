"""The first process of every component, on a machine as in a pod: starts it, tees it, ends it.

A program of its own in one file, Python 3.10 and the standard library only, since it is mounted
alone into images that have no paddock. It knows its component, the run directory and the peers'
status files; it judges no run. Nothing that it writes holds a value of the component's environment.
In a pod it is process 1, and leaves its verdict in the termination log, which the pod's status
carries: so a run can be judged without reading the volume.
"""

import argparse
import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

# The same numbers and names as in runtime.limits and runtime.naming; a test compares them.
HEARTBEAT_S = 10.0
STALE_S = 60.0
GRACE_S = 10.0
TRAINER_GRACE_S = 60.0
LOOK_S = 0.5
LATE_S = 5.0  # a look that comes later was held up, as a rule by the volume
INDEX_S = 1.0
DYING_S = 0.1
DEAD = ([], ["Z"], ["X"])
MAX_HELD_STDOUT = 1 << 20
END_MARK = b"Orchestrator finished."
ORCHESTRATOR = "orchestrator"
TRAINER = "trainer"
ENV_RUN_MARK = "PADDOCK_RUN_MARK"
ENV_COMPONENT = "PADDOCK_COMPONENT"
READY = ".ready"
REOPEN_S = 1.0
MAX_TERMINATION_BYTES = 4096  # what kubelet keeps

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


class Log:
    """The component's log, its index of `unix_time offset` at line starts, and the own stdout."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, int] = {}
        self._opened_at = float("-inf")
        self._offset = 0
        self._at_line_start = True
        self._indexed_at = 0.0
        self._held = bytearray()
        self._tail = b""
        self.has_end_mark = False
        self.error = ""
        self._open()

    def _open(self) -> None:
        """Open what is not open; a volume that is away is tried again, once in REOPEN_S."""
        now = time.monotonic()
        if now - self._opened_at < REOPEN_S:
            return
        self._opened_at = now
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for suffix in {"", ".idx"} - self._files.keys():
                self._files[suffix] = os.open(f"{self._path}{suffix}", flags, 0o644)
                if not suffix:
                    self._offset = os.fstat(self._files[suffix]).st_size
        except OSError as error:
            self.error = f"log: {error.strerror}"

    def write(self, data: bytes) -> None:
        """Append a chunk of output; a full disk loses lines, never the component."""
        now = time.time()
        if len(self._files) < 2:
            self._open()
        start = 0 if self._at_line_start else data.find(b"\n") + 1 or len(data)
        if start < len(data) and not 0 <= now - self._indexed_at < INDEX_S:
            self._append(".idx", b"%.3f %d\n" % (now, self._offset + start))
            self._indexed_at = now
        self._append("", data)
        self._offset += len(data)
        self._at_line_start = data.endswith(b"\n")
        self.has_end_mark = self.has_end_mark or END_MARK in self._tail + data
        self._tail = (self._tail + data)[-len(END_MARK) :]
        self._held += data
        self.flush_stdout()

    def _append(self, suffix: str, data: bytes) -> None:
        if suffix not in self._files:
            return
        try:
            while data:
                data = data[os.write(self._files[suffix], data) :]
        except OSError as error:
            self.error = f"log: {error.strerror}"
            if error.errno == errno.ESTALE:  # the volume's server lost the file handle
                os.close(self._files.pop(suffix))

    def flush_stdout(self) -> None:
        """Write to stdout what it takes without blocking; a reader that stalls loses the oldest."""
        del self._held[:-MAX_HELD_STDOUT]
        try:
            while self._held and select.select([], [1], [], 0)[1]:
                # A pipe that select calls writable takes PIPE_BUF bytes without blocking.
                del self._held[: os.write(1, self._held[:4096])]
        except (OSError, ValueError):
            self._held.clear()

    def close_stdout(self) -> None:
        """Give the reader of stdout a moment to take the rest."""
        deadline = time.monotonic() + 2.0
        while self._held and time.monotonic() < deadline:
            select.select([], [1], [], 0.1)
            self.flush_stdout()


class Peers:
    """The status files of the attempt's other components, and when each was last seen to change."""

    def __init__(self, folder: Path, own: str) -> None:
        self._folder = folder
        self._own = own
        self._read: dict[str, tuple[tuple[int, int], dict[str, object]]] = {}
        self._changed_at: dict[str, float] = {}
        self._completed_at: float | None = None
        self._looked_at = time.monotonic()

    def look(self) -> None:
        """Read the status files that changed; time in which they cannot be read ages nobody."""
        is_blind = not self._read_changes()
        now = time.monotonic()
        passed, self._looked_at = now - self._looked_at, now
        if is_blind or passed > LATE_S:
            for name, changed_at in self._changed_at.items():
                self._changed_at[name] = min(now, changed_at + passed)

    def _read_changes(self) -> bool:
        """Read the status files that changed, and tell whether all could be read."""
        try:
            entries = [entry for entry in os.scandir(self._folder) if entry.name[:1] != "."]
        except OSError:
            return False
        could_read = True
        for entry in entries:
            name = entry.name.removesuffix(".json")
            if name in {self._own, entry.name}:
                continue
            try:
                stat = entry.stat()
                signature = (stat.st_mtime_ns, stat.st_ino)
                seen, data = self._read.get(name, (None, {}))
                age = time.monotonic() - self._changed_at.get(name, 0.0)
                # Opening asks a network volume anew, where a stat may be a minute old.
                if seen == signature and (age < STALE_S / 3 or data.get("end") is not None):
                    continue
                fresh = json.loads(Path(entry.path).read_bytes())
                if name in self._read and fresh == data:
                    continue
                self._read[name] = (signature, fresh)
                self._changed_at[name] = time.monotonic()
            except (FileNotFoundError, ValueError):
                continue  # it was just replaced
            except OSError:
                could_read = False
        return could_read

    def reason_to_end(self, trainer_grace_s: float) -> str:
        """Return why the own component must end now, empty while it must not."""
        status = {name: data for name, (_, data) in self._read.items()}
        now = time.monotonic()
        if status.get(ORCHESTRATOR, {}).get("outcome") == "completed":
            self._completed_at = self._completed_at or now
            is_late = now - self._completed_at >= trainer_grace_s
            if not self._own.startswith(TRAINER):
                return "the orchestrator finished"
            return f"it did not end within {trainer_grace_s:g} s" if is_late else ""
        for name, data in status.items():
            if data.get("outcome") in {"failed", "ended"}:
                return f"{name} {data['outcome']}: {data.get('reason')}"
            if data.get("end") is None and now - self._changed_at[name] > STALE_S:
                return f"{name} gave no heartbeat for {STALE_S:g} s"
        return ""

    @property
    def are_done(self) -> bool:
        """Tell whether the orchestrator has finished, so that a server may end."""
        return self._completed_at is not None


class Wrapper:
    """One component from its start to its end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        run = Path(options.run_dir)
        self._path = run / "status" / f"attempt_{options.attempt}" / f"{options.component}.json"
        self._log = Log(run / "logs" / f"attempt_{options.attempt}" / options.log)
        self._peers = Peers(self._path.parent, options.component)
        self._signals: list[int] = []
        self._parent = os.getppid()
        self._pid = 0
        self._wait_status: int | None = None
        self._end_reason = ""
        self._end_code = 0
        self._kill_at: float | None = None
        self._oom_kills = oom_kills()
        self._status: dict[str, object] = {
            "component": options.component,
            "attempt": options.attempt,
            "log": options.log,
            "host": socket.gethostname(),
            "wrapper_pid": os.getpid(),
            "wrapper_start_ticks": start_ticks(os.getpid()),
            "start": time.time(),
            **dict.fromkeys(("pid", "start_ticks", "end", "exit_code", "signal", "outcome")),
            "reason": "",
            "end_mark": False,
            "oom_kills": 0,
        }

    def run(self) -> int:
        """Run the component and return the exit code of the wrapper."""
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda number, _: self._signals.append(number))
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if self._options.supervisor:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if self._parent != self._options.supervisor or os.getppid() != self._parent:
                return self._finish("ended", "the supervisor died", 143)
        output = self._start(read_env_file(self._options.env_file))
        self._watch(output, wake)
        return self._close(output)

    def _start(self, secrets: "dict[str, str]") -> int:
        mark = {ENV_RUN_MARK: self._options.mark} if self._options.mark else {}
        environment = {
            **os.environ,
            **secrets,
            **mark,
            ENV_COMPONENT: self._options.component,
        }
        output, child_end = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            execute(self._options.argv, environment, output=child_end, parent=parent)
        os.close(child_end)
        os.set_blocking(output, False)
        self._status.update(pid=self._pid, start_ticks=start_ticks(self._pid))
        self._write_status()
        return output

    def _watch(self, output: int, wake: int) -> None:
        sources = [output, wake]
        beat_at = time.monotonic() + HEARTBEAT_S
        look_at = 0.0
        while self._wait_status is None:
            ready = select.select(sources, [], [], LOOK_S / 2)[0]
            if wake in ready:
                os.read(wake, 4096)
            if output in ready and self._tee(output):
                sources.remove(output)  # the component closed its output and goes on
            self._log.flush_stdout()
            self._reap()
            now = time.monotonic()
            while self._signals:
                self._take_signal(self._signals.pop(0))
            if now >= look_at:
                look_at = now + LOOK_S
                self._peers.look()
                self._look_at_supervisor()  # after the peers: they end for the same reason
                reason = self._peers.reason_to_end(self._options.trainer_grace_s)
                self._end(reason, is_late=self._peers.are_done)
            is_reaped = self._wait_status is not None  # its pid is nobody's, or another's
            if self._kill_at is not None and now >= self._kill_at and not is_reaped:
                self._signal_component(signal.SIGKILL)
            if now >= beat_at:
                beat_at = now + HEARTBEAT_S
                self._write_status()

    def _tee(self, output: int) -> bool:
        try:
            data = os.read(output, 1 << 16)
        except BlockingIOError:
            return False
        if data:
            self._log.write(data)
        return not data

    def _reap(self) -> None:
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._pid:
                    self._wait_status = found[1]
        except ChildProcessError:
            return

    def _take_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        self._look_at_supervisor(patience_s=DYING_S)
        self._peers.look()
        self._peers.reason_to_end(0.0)
        if self._is_server and self._peers.are_done:
            self._end("the orchestrator finished")
            return
        name = signal.Signals(number).name
        self._end(f"it was asked to by {name}", number=number, code=128 + number)

    def _look_at_supervisor(self, patience_s: float = 0.0) -> None:
        """End the component if the supervisor is gone; a dying one is given time to be gone.

        The death signal comes when the supervisor's first thread ends, and until its last one has
        ended it is still the parent.
        """
        if not self._options.supervisor:
            return
        deadline = time.monotonic() + patience_s
        while os.getppid() == self._parent and process_fields(self._parent)[:1] not in DEAD:
            if time.monotonic() >= deadline:
                return
            time.sleep(0.005)
        self._end("the supervisor died", code=143)

    def _end(
        self,
        reason: str,
        *,
        number: int = signal.SIGTERM,
        code: int = 0,
        is_late: bool = False,
    ) -> None:
        """Ask the component to end; a trainer may be writing a checkpoint, unless it had time."""
        if not reason or self._end_reason or self._wait_status is not None:
            return
        self._end_reason = reason
        self._end_code = code
        has_time = self._options.component.startswith(TRAINER) and not is_late
        grace_s = self._options.trainer_grace_s if has_time else GRACE_S
        self._kill_at = time.monotonic() + grace_s
        self._signal_component(number)

    def _signal_component(self, number: int) -> None:
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:  # not yet a group of its own
            os.kill(self._pid, number)

    def _close(self, output: int) -> int:
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            self._tee(output)
            self._reap()
            left = leftovers(self._options.mark, self._options.component)
            if not left:
                break
            for pid in (-1,) if os.getpid() == 1 else left:  # -1: all of the container's
                kill(pid)
            time.sleep(0.01)
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline and not self._tee(output):
            select.select([output], [], [], 0.1)
        self._reap()
        assert self._wait_status is not None
        return self._judge(os.waitstatus_to_exitcode(self._wait_status))

    def _judge(self, code: int) -> int:
        self._status["exit_code"] = code if code >= 0 else None
        self._status["signal"] = signal.Signals(-code).name if code < 0 else None
        self._status["end_mark"] = self._log.has_end_mark
        deaths = max(0, oom_kills() - self._oom_kills)
        self._status["oom_kills"] = deaths
        if self._end_reason:
            return self._finish("ended", self._end_reason, self._end_code)
        how = f"exited with code {code}" if code >= 0 else f"was killed by {self._status['signal']}"
        if deaths > 0:
            how += f"; the kernel's OOM killer ended {deaths} process(es) meanwhile: out of memory"
        self._peers.look()
        self._peers.reason_to_end(0.0)
        if self._is_server and self._peers.are_done:
            return self._finish("ended", f"{how} after the orchestrator", 0)
        if code != 0:
            return self._finish("failed", how, code if code > 0 else 128 - code)
        if self._is_server:
            return self._finish("failed", f"{how} while the run was live", 1)
        return self._finish("completed", how, 0)

    @property
    def _is_server(self) -> bool:
        return not self._options.component.startswith((ORCHESTRATOR, TRAINER))

    def _finish(self, outcome: str, reason: str, code: int) -> int:
        self._status.update(outcome=outcome, reason=reason, end=time.time())
        self._write_status()
        if self._options.component == ORCHESTRATOR:
            # Pods that are made again for this attempt wait until the next one is ready.
            with contextlib.suppress(OSError):
                self._path.with_name(READY).unlink()
        if self._options.termination_log:
            write_termination_log(self._options.termination_log, self._status)
        self._log.close_stdout()
        return code

    def abort(self, reason: str) -> int:
        """Kill what was started and record that the wrapper itself failed."""
        for pid in leftovers(self._options.mark, self._options.component):
            kill(pid)
        return self._finish("failed", reason, 70)

    def _write_status(self) -> None:
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        status = {**self._status, "heartbeat": time.time(), "log_error": self._log.error}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("w") as file:
                json.dump(status, file)
                file.flush()
                if status["end"] is not None:
                    os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            print(f"wrapper: status: {error.strerror}", file=sys.stderr)


def read_env_file(path: str | None) -> "dict[str, str]":
    """Return the secret environment and remove its file, which only the owner may read."""
    if path is None:
        return {}
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    os.unlink(path)
    with os.fdopen(descriptor) as file:
        if os.fstat(descriptor).st_mode & 0o077:
            raise PermissionError(f"the env file {path} can be read by others")
        values = json.load(file)
    return {str(name): str(value) for name, value in values.items()}


def execute(argv: "list[str]", environment: "dict[str, str]", *, output: int, parent: int) -> None:
    """Turn the forked child into the component; never returns."""
    try:
        os.setsid()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execvpe(argv[0], argv, environment)  # noqa: S606
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "") or "an argument or a variable holds a NUL byte"
        os.write(2, f"wrapper: cannot execute {argv[0]}: {why}\n".encode())
    finally:
        os._exit(127)


def start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot."""
    fields = process_fields(pid)
    return int(fields[19]) if fields else 0


def process_fields(pid: int) -> "list[str]":
    """Return the fields of /proc/<pid>/stat after the name, none when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def leftovers(mark: str | None, component: str) -> "list[int]":
    """Return the live descendants of this process and what carries the component's marks."""
    own = os.getpid()
    fields = {int(pid): process_fields(int(pid)) for pid in os.listdir("/proc") if pid.isdigit()}
    live = {pid: int(field[1]) for pid, field in fields.items() if field and field[0] not in "ZX"}
    family = {own}
    grown = True
    while grown:
        more = {pid for pid, parent in live.items() if parent in family} - family
        family |= more
        grown = bool(more)
    marks = {f"{ENV_RUN_MARK}={mark}".encode(), f"{ENV_COMPONENT}={component}".encode()}
    marked = {pid for pid in live if mark and marks <= environment_of(pid)}
    return sorted((family | marked) - {own})


def environment_of(pid: int) -> "set[bytes]":
    """Return the environment of a process at its exec."""
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def kill(pid: int) -> None:
    """Kill a process; one that is gone is no error."""
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def oom_kills() -> int:
    """Return how often the kernel killed for memory: in this control group, else on the machine."""
    try:
        text = Path("/proc/self/cgroup").read_text()
    except OSError:
        text = ""
    for path in oom_counters(text):
        try:
            rows = [line.split() for line in Path(path).read_text().splitlines()]
        except OSError:
            continue
        counts = [int(row[1]) for row in rows if row[0] == "oom_kill"]
        if counts:  # kernels before 4.13 have the v1 file, but not this row
            return sum(counts)
    return 0


def oom_counters(cgroup: str) -> "list[str]":
    """Return the files that count the kernel's kills, best first, given /proc/self/cgroup.

    In a container with version 1 the path is the host's, but what is mounted is the own group.
    """
    rows = [line.split(":", 2) for line in cgroup.splitlines()]
    groups = {names: group for _, names, group in rows}
    unified = groups.get("", "/").rstrip("/")
    found = [f"/sys/fs/cgroup{unified}/memory.events"]
    memory = [group for names, group in groups.items() if "memory" in names.split(",")]
    found += [f"/sys/fs/cgroup/memory{group.rstrip('/')}/memory.oom_control" for group in memory]
    return [*found, "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat"]


def write_termination_log(path: str, status: "dict[str, object]") -> None:
    """Leave the verdict where kubelet reads it; a reason that is too long is cut."""
    names = ("component", "outcome", "reason", "exit_code", "signal", "end_mark", "oom_kills")
    message = {name: status.get(name) for name in names}
    reason = str(message["reason"])
    text = json.dumps(message)
    while len(text) > MAX_TERMINATION_BYTES:  # ASCII: an escape is longer than its character
        reason = reason[: len(reason) // 2]
        text = json.dumps({**message, "reason": f"{reason} ..."})
    try:
        Path(path).write_text(text)
    except OSError as error:
        print(f"wrapper: termination log: {error.strerror}", file=sys.stderr)


def main() -> int:
    """Read the command line and run the component."""
    parser = argparse.ArgumentParser(description="Run one component of a paddock run.")
    parser.add_argument("--run-dir", required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--component", required=True)
    parser.add_argument("--log", required=True, help="relative to the attempt's log folder")
    parser.add_argument("--env-file", help="0600 JSON object, removed once read")
    parser.add_argument("--mark", help="value of PADDOCK_RUN_MARK")
    parser.add_argument("--cwd", help="working directory of the component")
    parser.add_argument("--supervisor", type=int, default=0, help="pid; its death ends the run")
    parser.add_argument("--trainer-grace-s", type=float, default=TRAINER_GRACE_S)
    parser.add_argument("--termination-log", help="file for the verdict, as kubelet reads it")
    parser.add_argument("argv", nargs="+")
    options = parser.parse_args()
    wrapper = Wrapper(options)
    try:
        if options.cwd:
            os.chdir(options.cwd)
        return wrapper.run()
    except Exception as error:
        traceback.print_exc()
        return wrapper.abort(f"its wrapper failed: {type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main())
