"""What a pod's containers execute: `prepare` before the component, `run` for the component.

A program of its own in one file, Python 3.10 and the standard library only, since it is mounted
from a ConfigMap into images that have no paddock. `pod_entry.py prepare|run <replicated job>`
finds its pod in launch.json beside it. `prepare` waits until the run directory is ready (the
orchestrator's cleans it and runs first_checkpoint.py and resolve.py) and all pods are there;
`packages <replicated job> COMMAND` installs environments and tells the other pods where that fails;
`run` becomes wrapper.py. Nothing is restarted, and all end within seconds of SIGTERM.
"""

import collections
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).absolute().parent
PACKAGES_DIR = Path("/paddock/packages")  # mounted where environments were asked for
TERMINATION_LOG = os.environ.get("PADDOCK_TERMINATION_LOG", "/dev/termination-log")
JOB_INDEX_VARIABLE = "PADDOCK_JOB_INDEX"
POD_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
READY = ".ready"  # as in wrapper.py
PREPARED = ".prepared-"
ORCHESTRATOR = "orchestrator"

READY_TIMEOUT_S = 1800.0  # for pods that have GPUs, as the next one
PEERS_TIMEOUT_S = 3600.0
POLL_S = 0.5
SAY_EVERY_S = 30.0
FAILURE_STANDS_S = 30.0
"""A failure in a status file counts once it stands for so long: pods that are made again for the
same attempt remove the files of those before them, each its own."""
NUM_FILES = 65536  # as prime-rl's launcher; the image's own entrypoint does not run in a pod
MAX_REASON_CHARS = 3000
LAST_LINES = 20


class Pod:
    """One pod's part of launch.json, and the paths that it works with."""

    def __init__(self, replicated_job: str) -> None:
        job = os.environ.get(JOB_INDEX_VARIABLE, "0")
        index = os.environ.get(POD_INDEX_VARIABLE, "0")
        self.key = f"{replicated_job}-{job}-{index}"
        self.document = json.loads((HERE / "launch.json").read_text())
        self.run_dir = Path(self.document["run_dir"])
        self.attempt = int(self.document["attempt"])
        if self.key not in self.document["pods"]:
            raise LookupError(f"launch.json knows no pod {self.key}")
        self.entry = self.document["pods"][self.key]
        self.component = str(self.entry["component"])
        self.status_folder = self.run_dir / "status" / f"attempt_{self.attempt}"


def prepare(pod: Pod) -> int:
    """Make the run directory ready, or wait until it is; then wait for the attempt's other pods."""
    with contextlib.suppress(FileNotFoundError):
        (pod.status_folder / f"{pod.component}.json").unlink()
    if pod.component == ORCHESTRATOR:
        code, said = make_ready(pod)
        if code != 0:
            return fail(pod, said, code)
    if pod.document["gate"]:
        outcome, problem = wait_for_peers(pod, time.sleep)
        if problem:
            return report(problem, 1, pod=pod, outcome=outcome)
    return 0


def make_ready(pod: Pod) -> "tuple[int, str]":
    """Remove what an earlier start left, have all components' files written, and mark it done."""
    mark = pod.status_folder / READY
    pod.status_folder.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)
    for name in names_in(pod.status_folder):
        if name.endswith(".json") or name.startswith(PREPARED):
            (pod.status_folder / name).unlink(missing_ok=True)
    if pod.document["first_checkpoint"] is not None:
        code, said = follow([sys.executable, "-u", str(HERE / "first_checkpoint.py")])
        if code != 0:
            return code, said
    last = last_checkpoint(pod)
    keep = kept_step(pod.document["clean_past"], last)
    entries = [*listed(pod.run_dir / "rollouts"), *listed(pod.run_dir / "broadcasts")]
    for step in (entry for entry in entries if step_number(entry) > keep):
        print(f"prepare: removing stale {step.parent.name}/{step.name}", flush=True)
        shutil.rmtree(step)
    argv = [sys.executable, "-u", str(HERE / "resolve.py")]
    if pod.document["resume"] == "last" and last is not None:
        argv += ["--resume-step", str(last)]
    code, said = follow(argv)
    if code == 0:
        mark.touch()
    return code, said


def last_checkpoint(pod: Pod) -> "int | None":
    """Return the newest step of which every part is there; a killed save may lack one."""
    steps = listed(pod.run_dir / "checkpoints")
    parts = pod.document["checkpoint_parts"]
    whole = [step for step in steps if all((step / part).is_dir() for part in parts)]
    return max((number for number in map(step_number, whole) if number >= 0), default=None)


def kept_step(clean_past: "str | int", last: "int | None") -> int:
    """Return the last step whose files are still needed; -1 where nothing is kept."""
    if clean_past == "start" or (clean_past == "last" and last is None):
        return -1
    return int(last if clean_past == "last" and last is not None else clean_past)


def step_number(folder: Path) -> int:
    """Return the number of a folder named step_N, -1 for any other name."""
    head, _, number = folder.name.partition("_")
    return int(number) if head == "step" and number.isdigit() else -1


def listed(folder: Path) -> "list[Path]":
    """Return the entries of a folder, none where it is not there."""
    return sorted(folder.iterdir()) if folder.is_dir() else []


def wait_for_peers(pod: Pod, sleep: "Callable[[float], None]") -> "tuple[str, str]":
    """Wait for the run directory and the other pods; return how and why in vain, "" where not.

    Components give each other ten minutes at their start, and a pull of the image may take longer
    on one node than on another. A pod gives its GPUs back in the end; without any it just waits.
    """
    start = said = time.monotonic()
    failed_since: dict[str, float] = {}
    while awaited := missing_peers(pod):
        now = time.monotonic()
        limit = PEERS_TIMEOUT_S if is_ready(pod) else READY_TIMEOUT_S
        if pod.entry["num_gpus"] and now - start > limit:
            return "failed", f"{awaited} did not start within {limit:g} s: it gives its GPUs back"
        failed = failures(pod.status_folder)
        failed_since = {line: failed_since.get(line, now) for line in failed}
        for line, since in failed_since.items():
            if now - since >= FAILURE_STANDS_S:
                return "ended", line
        if now - said > SAY_EVERY_S:
            said = now
            print(f"prepare: waiting for {awaited}", flush=True)
        sleep(POLL_S)
    return "", ""


def missing_peers(pod: Pod) -> str:
    """Note that this pod is there, and return for whom it waits, "" when for nobody."""
    if not is_ready(pod):
        return "the orchestrator's pod"
    (pod.status_folder / f"{PREPARED}{pod.key}").touch()
    there = names_in(pod.status_folder)
    missing = sorted(key for key in pod.document["pods"] if f"{PREPARED}{key}" not in there)
    return f"pod(s) {', '.join(missing)}" if missing else ""


def is_ready(pod: Pod) -> bool:
    """Tell whether the run directory is ready for this attempt."""
    return READY in names_in(pod.status_folder)


def names_in(folder: Path) -> "set[str]":
    """Return the names in a folder, none where it cannot be read.

    A network volume remembers for long that a file was not there, so nothing is looked up by name.
    """
    with contextlib.suppress(OSError):
        return set(os.listdir(folder))
    return set()


def failures(folder: Path) -> "list[str]":
    """Return a line for each component of the attempt that has failed."""
    found = []
    for path in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            status = json.loads(path.read_bytes())
            if status.get("outcome") == "failed":
                found.append(f"{path.stem} failed: {status.get('reason')}")
    return sorted(found)


def fail(pod: Pod, reason: str, code: int) -> int:
    """Say why the pod cannot start, to people, to kubelet and to the attempt's other pods."""
    return report(reason, code, pod=pod, outcome="failed")


def report(reason: str, code: int, *, pod: "Pod | None", outcome: str) -> int:
    """Write the end of a component that never started, in the wrapper's shapes."""
    print(f"{sys.argv[1]}: {reason}", file=sys.stderr, flush=True)
    verdict = {
        "component": pod.component if pod is not None else sys.argv[2],
        "outcome": outcome,
        "reason": reason[:MAX_REASON_CHARS],
        "exit_code": code,
        "signal": None,
        "end_mark": False,
        "oom_kills": 0,
    }
    with contextlib.suppress(OSError):
        Path(TERMINATION_LOG).write_text(json.dumps(verdict)[:4096])
    if pod is not None:
        path = pod.status_folder / f"{pod.component}.json"
        temporary = path.with_name(f".{path.name}.tmp")
        with contextlib.suppress(OSError):
            pod.status_folder.mkdir(parents=True, exist_ok=True)
            times = dict.fromkeys(("start", "end", "heartbeat"), time.time())
            temporary.write_text(json.dumps({**verdict, **times}))
            temporary.replace(path)
    return code


def install(pod: Pod, argv: "list[str]") -> int:
    """Run the command that installs the environments; tell the other pods where that fails."""
    code, said = follow(argv)
    if code == 0:
        return 0
    deadline = time.monotonic() + FAILURE_STANDS_S
    while not is_ready(pod) and pod.component != ORCHESTRATOR and time.monotonic() < deadline:
        time.sleep(POLL_S)  # else the orchestrator's pod, which clears the folder, clears this too
    return fail(pod, f"its environments cannot be installed, {argv[0]} gave {code}: {said}", 2)


def follow(argv: "list[str]") -> "tuple[int, str]":
    """Run a program, show its output, and return its exit code and the end of what it said."""
    # No `with`: at SIGTERM it would wait for the command, which ends with the container anyway.
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
    for line in process.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        said.append(line.decode(errors="replace").rstrip())
    return process.wait(), "\n".join(said)[-MAX_REASON_CHARS + 500 :]


def run(pod: Pod) -> int:
    """Become the wrapper of the pod's component."""
    commands = pod.entry["commands"]
    if not commands:
        return fail(pod, f"{pod.component} has no command: paddock does not start it", 2)
    argv, extra = [sys.executable, "-u", str(HERE / "ranks.py"), pod.key], {}
    if len(commands) == 1:
        argv, extra = commands[0]["argv"], commands[0]["env"]
    os.environ.update(extra)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = NUM_FILES if hard == resource.RLIM_INFINITY else min(NUM_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    become(
        [
            *("-I", "-S", str(HERE / "wrapper.py")),
            *("--run-dir", str(pod.run_dir), "--attempt", str(pod.attempt)),
            *("--component", pod.component, "--log", str(pod.entry["log"])),
            *("--cwd", str(pod.run_dir)),  # a relative path in the file lies in the run directory
            *("--termination-log", TERMINATION_LOG, "--", *argv),
        ]
    )
    return 0


def packages_environment(environ: "Mapping[str, str]", folder: Path) -> "dict[str, str]":
    """Return what makes installed environments importable, before what the image itself adds."""
    if not folder.is_dir():
        return {}
    own = environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{folder}:{own}" if own else str(folder)}


def become(words: "list[str]") -> None:
    """Replace this process by another program of the same interpreter."""
    os.execv(sys.executable, [sys.executable, "-u", *words])  # noqa: S606


def main() -> int:
    """Do what the command line says for this pod."""
    # Process 1 has no default for SIGTERM: without a handler it would be ignored.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    os.environ.update(packages_environment(os.environ, PACKAGES_DIR))
    try:
        pod = Pod(sys.argv[2])
    except (OSError, ValueError, LookupError) as error:
        return report(f"{error}", 2, pod=None, outcome="failed")
    try:
        if sys.argv[1] == "packages":
            return install(pod, sys.argv[3:])
        return {"prepare": prepare, "run": run}[sys.argv[1]](pod)
    except OSError as error:
        return fail(pod, f"{type(error).__name__}: {error}", 1)


if __name__ == "__main__":
    sys.exit(main())
