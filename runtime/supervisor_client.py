"""The client of local supervisors: start, stop and release a run and its components.

The only door to `runtime.supervisor`; called by the dynamic providers of infra and by the CLI. It
holds no state: everything is in the state directory, the run directory and /proc.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runtime.local_state import LocalRun
from runtime.record import RunRecord

PREPARE = "runtime.launch.local:prepare_local"
"""What turns a run directory and a plan into components; a test may name another."""

DESTROYED = "destroyed while live"
"""The reason of a run whose stack was destroyed before its end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartRun:
    """The request to place one attempt of a run on this machine.

    The run directory must hold `configs/rl.toml` and `configs/plan.json` before the first component
    is started. `prepare` is `module:function` or `/abs/file.py:function`; `request_timeout_s` is
    how long the supervisor waits for the update to request all planned components.
    """

    run: LocalRun
    config_digest: str
    num_slots: int
    num_ports: int
    prepare: str = PREPARE
    request_timeout_s: float = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHandle:
    """A supervised run: its supervisor, its port block and its devices (one a slot, "" = CPU)."""

    run: LocalRun
    supervisor_pid: int
    base_port: int
    devices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentHandle:
    """A started component; `pid` and `start_ticks` identify its wrapper."""

    component: str
    pid: int
    start_ticks: int
    ports: tuple[int, ...]
    log: str
    started_at: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """The slots of a local cluster: all of them, and those in use by run id."""

    num_slots: int
    used: Mapping[str, int] = field(default_factory=dict)

    @property
    def num_free(self) -> int:
        """Return the slots that no run holds."""
        return self.num_slots - sum(self.used.values())


def check_start(request: StartRun) -> None:
    """Raise what `start_run` would raise for the record or the bar; claims and starts nothing.

    For a provider's `check` and for previews: RunStateError with the fix in its message when the
    attempt is over or barred, or runs with another config.
    """
    raise NotImplementedError


def capacity(run: LocalRun) -> Capacity:
    """Return the cluster's slots, those of the run itself not counted as used."""
    raise NotImplementedError


def start_run(request: StartRun) -> RunHandle:
    """Start the supervisor of one attempt and return once it answers; idempotent while it lives.

    Raises RunStateError (terminal, barred, other config), RefusedError (slots or ports do not fit),
    SupervisorError (it did not come up).
    """
    raise NotImplementedError


def start_component(
    run: LocalRun, component: str, secret_env: Mapping[str, str]
) -> ComponentHandle:
    """Start one planned component; returns the running one when it was started before.

    Raises RunStateError when the run is over, NotFoundError for a component that is not planned,
    SupervisorError when the supervisor is gone or the component cannot be prepared.
    """
    raise NotImplementedError


def stop_component(run: LocalRun, component: str, *, reason: str = DESTROYED) -> None:
    """End one component; a run that is still live is stopped as a whole, for this reason.

    Idempotent: a run, a supervisor or a component that is gone is no error.
    """
    raise NotImplementedError


def component_is_alive(run: LocalRun, component: ComponentHandle) -> bool:
    """Tell whether the component's wrapper still runs."""
    raise NotImplementedError


def stop_run(run: LocalRun, *, reason: str) -> RunRecord:
    """Stop a live run and return its record, STOPPED once no process of it is left.

    Returns the record as it is when the run is over. Raises NotFoundError where there is no record.
    """
    raise NotImplementedError


def release_run(run: LocalRun, *, reason: str = DESTROYED) -> None:
    """End everything that the run id owns up to this attempt, and bar the attempt from starting.

    Works with or without a supervisor, record or run directory; idempotent. A run that was live
    becomes STOPPED for this reason. Raises SupervisorError naming the pids that will not end.
    """
    raise NotImplementedError


def settle_run(run: LocalRun) -> RunRecord | None:
    """Return the record; where the supervisor died, first judge the run and free what it held."""
    raise NotImplementedError
