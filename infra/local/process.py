"""LocalProcess: one component of a local run as a resource; the supervisor owns the process.

The provider only talks to the supervisor over a socket, so that no process inherits its pipes. The
secret values pass through as a secret input: the state keeps them encrypted, the supervisor hands
them to the component in a 0600 file. This module is never moved or renamed.
"""

from typing import TYPE_CHECKING, Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource

from infra.provider_errors import Provider

if TYPE_CHECKING:
    from runtime.local_state import LocalRun

Props = dict[str, Any]  # Any: property values as the engine hands them over


class LocalProcessProvider(Provider):
    """The provider of LocalProcess."""

    def create(self, props: Props) -> CreateResult:
        """Ask the run's supervisor to start the component."""
        from runtime.supervisor_client import start_component

        handle = start_component(_run(props), props["component"], props["secretEnv"])
        outs = {key: value for key, value in props.items() if key != "secretEnv"}
        outs |= {"pid": handle.pid, "startTicks": handle.start_ticks, "ports": list(handle.ports)}
        return CreateResult(f"{props['runId']}/{props['attempt']}/{props['component']}", outs=outs)

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """A component belongs to an attempt; a new attempt replaces it."""
        changed = [key for key in ("runId", "attempt", "component") if _olds[key] != _news[key]]
        return DiffResult(changes=bool(changed), replaces=changed)

    def read(self, id_: str, props: Props) -> ReadResult:
        """Report a component that has ended as gone."""
        from runtime.processes import ProcessId, is_alive

        process = ProcessId(pid=int(props["pid"]), start_ticks=int(props["startTicks"]))
        return ReadResult(id_ if is_alive(process) else "", outs=dict(props))

    def delete(self, _id: str, _props: Props) -> None:
        """Stop the run that misses a component; one that is over stays as it is."""
        from runtime.supervisor_client import stop_component

        stop_component(_run(_props))


def _run(props: Props) -> "LocalRun":
    from pathlib import Path

    from runtime.local_state import LocalRun

    return LocalRun(
        state_path=Path(props["statePath"]),
        run_path=Path(props["runPath"]),
        run_id=props["runId"],
        attempt=int(props["attempt"]),
    )


class LocalProcess(Resource, module="paddock/local", name="Process"):
    """A supervised process of this machine."""

    def __init__(
        self,
        name: str,
        inputs: Props,
        *,
        secret_env: pulumi.Output[dict[str, str]],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Declare the component of a run."""
        super().__init__(
            LocalProcessProvider(),
            name,
            {**inputs, "secretEnv": secret_env, "pid": None, "startTicks": None, "ports": None},
            opts,
        )
