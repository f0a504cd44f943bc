"""Starting the processes of a run's components behind their wrappers, and what a wrapper leaves.

Called by the supervisor only, in its main thread: the wrapper is told of the death of the thread
that started it.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from runtime import limits, naming
from runtime.errors import SupervisorError
from runtime.launch.local import LocalComponent
from runtime.local_state import LocalRun
from runtime.secret_rules import is_reserved

WRAPPER = Path(__file__).parent / "launch" / "wrapper.py"


def load_prepare(name: str) -> Callable[..., tuple[LocalComponent, ...]]:
    """Return the function that `module:function` or `/abs/file.py:function` names.

    It must start no process: the supervisor reaps every child that ends.
    """
    place, _, function = name.rpartition(":")
    if not place.endswith(".py"):
        return getattr(importlib.import_module(place), function)
    spec = importlib.util.spec_from_file_location(Path(place).stem, place)
    assert spec is not None, place
    assert spec.loader is not None, place
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return getattr(module, function)


def spawn(run: LocalRun, component: LocalComponent, secret_env: Mapping[str, str]) -> int:
    """Start a component behind its wrapper, in a session of its own, and return the wrapper's pid.

    The secrets travel in a 0600 file that the wrapper removes. What the component's public
    environment sets wins over a secret of the same name. Raises SupervisorError for a secret with
    a reserved name.
    """
    env_file = _write_env_file(run, component, secret_env)
    argv = [
        *(sys.executable, "-I", "-S", str(WRAPPER)),
        *("--run-dir", str(run.run_path), "--attempt", str(run.attempt)),
        *("--component", component.name, "--log", component.log),
        *("--mark", run.mark, "--supervisor", str(os.getpid()), "--cwd", str(run.run_path)),
        *("--env-file", str(env_file), "--trainer-grace-s", str(limits.TRAINER_GRACE_S)),
        *("--", *component.argv),
    ]
    environment = {
        **component.env,
        naming.ENV_RUN_MARK: run.mark,
        naming.ENV_COMPONENT: component.name,
    }
    try:
        return os.posix_spawn(
            sys.executable,
            argv,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGTERM],
        )
    except OSError as error:
        env_file.unlink(missing_ok=True)
        raise SupervisorError(f"{component.name} cannot be started: {error.strerror}") from None


def remove_private(run: LocalRun) -> None:
    """Remove the env files of the attempt, those that no wrapper has read too."""
    shutil.rmtree(run.private, ignore_errors=True)


def record_wrapper_death(
    run: LocalRun, component: LocalComponent, *, pid: int, wait_status: int
) -> None:
    """Write the end into the status file of a component whose wrapper could not do it itself.

    Does nothing when the wrapper recorded its end. A run directory that is gone is no error.
    """
    path = run.directory.status(run.attempt, component.name)
    now = time.time()
    status: dict[str, object] = {
        "component": component.name,
        "attempt": run.attempt,
        "log": component.log,
        "wrapper_pid": pid,
        "wrapper_start_ticks": 0,
        "start": now,
    }
    with contextlib.suppress(OSError, ValueError):
        status.update(json.loads(path.read_bytes()))
    if status.get("end") is not None:
        return
    code = os.waitstatus_to_exitcode(wait_status)
    name = signal.Signals(-code).name if code < 0 else None
    how = f"was killed by {name}" if name else f"exited with code {code}"
    status.update(
        outcome="failed",
        reason=f"ended with its wrapper, which {how}",
        exit_code=code if code >= 0 else None,
        signal=name,
        end=now,
        heartbeat=now,
    )
    temporary = path.with_name(f".{path.name}.tmp")
    with contextlib.suppress(OSError):
        temporary.write_text(json.dumps(status))
        temporary.replace(path)


def _write_env_file(
    run: LocalRun, component: LocalComponent, secret_env: Mapping[str, str]
) -> Path:
    for name in secret_env:
        if is_reserved(name):
            raise SupervisorError(f"{component.name}: the secret {name} has a reserved name")
    values = {name: value for name, value in secret_env.items() if name not in component.env}
    run.private.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = run.private / f"{component.name}.json"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(values, file)
    return path
