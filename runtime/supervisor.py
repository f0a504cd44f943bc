"""The supervisor of one attempt of a local run: a process that outlives whoever started it.

Owns the run's components: starts each behind its wrapper when asked to, judges what it sees, and
when the run is over ends everything, frees slots and ports, writes the record and exits. It is
started by `runtime.supervisor_client` only; requests come over its socket
(`runtime.supervisor_wire`). One thread does everything but preparing files, since a wrapper is tied
to the thread that starts it.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from functools import partial

from pydantic import ValidationError

from runtime import claims, limits, ports, supervisor_wire
from runtime.component_process import load_prepare, record_wrapper_death, remove_private, spawn
from runtime.errors import NotFoundError, PaddockError, RunStateError, SupervisorError
from runtime.launch.local import LocalComponent
from runtime.local_state import IndexEntry, bar_attempt, remove_index, supervise_alone, write_index
from runtime.observe.judge import PlanFacts, Transition, judge
from runtime.observe.local import run_processes, watch
from runtime.plan import plan_from_json
from runtime.processes import adopt_orphans, end_processes, identify, this_process
from runtime.record import advance, over_message, read_record
from runtime.run_end import write_transition
from runtime.states import RunState, is_terminal, may_follow
from runtime.supervisor_wire import Described, Refused, Started, StartRequest, StartRun, Stopping

FAILURE_GRACE_S = 5.0
"""Seconds that the other components of a failed run have to end."""

_LOOK_S = 0.5
_LOG = logging.getLogger("paddock.supervisor")


class Supervisor:
    """The state of one supervised attempt."""

    def __init__(self, request: StartRun, claim: claims.Claim, devices: tuple[str, ...]) -> None:
        """Hold the claimed ports; nothing is started yet."""
        self.request = request
        self.run = request.run
        self._claim = claim
        self._devices = devices
        self._held = {port: ports.hold_port(port) for port in claim.ports}
        self._planned: dict[str, LocalComponent] | None = None
        self._facts = PlanFacts()
        self._started: dict[str, Started] = {}
        self._wrappers: dict[int, LocalComponent] = {}
        self._preparing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._end: Transition | None = None
        self._trouble = ""
        self._asked_at = time.monotonic()

    async def supervise(self) -> None:
        """Serve requests until the run is over and nothing of it is left."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, f"its supervisor got {number.name}")
        listener = supervisor_wire.listen(self.run)
        server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=supervisor_wire.MAX_MESSAGE_BYTES
        )
        while (transition := self._look()) is None:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _LOOK_S)
        self._end = transition
        await self._finish(transition)
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = await self._answer(await reader.readline())
        except PaddockError as error:
            reply = Refused(code=error.code, message=str(error))
        except Exception as error:  # the process boundary: a client gets an answer
            # Neither traceback nor message: a request holds secrets.
            _LOG.error("a request failed: %s", type(error).__name__)
            reply = Refused(code="supervisor", message=f"internal: {type(error).__name__}")
        try:
            writer.write(reply.model_dump_json().encode() + b"\n")
            await writer.drain()
            writer.close()
        except OSError:
            return  # the client is gone

    async def _answer(self, line: bytes) -> Described | Started | Stopping | Refused:
        try:
            request = supervisor_wire.REQUEST.validate_json(line)
        except ValidationError:
            return Refused(code="supervisor", message="not a request")
        if isinstance(request, supervisor_wire.DescribeRequest):
            self._asked_at = time.monotonic()
            return Described(
                pid=os.getpid(),
                config_digest=self.request.config_digest,
                base_port=self._claim.base_port,
                devices=self._devices,
            )
        if isinstance(request, supervisor_wire.StopRequest):
            self._stop(request.reason)
            return Stopping()
        return await self._start(request)

    async def _start(self, request: StartRequest) -> Started:
        async with self._preparing:
            self._check_live()
            planned = await self._prepare()
            self._check_live()
            component = planned.get(request.component)
            if component is None:
                raise NotFoundError(
                    f"{self.run.run_id} has no component {request.component}: "
                    f"it has {', '.join(planned)}"
                )
            if component.name not in self._started:
                self._started[component.name] = self._spawn(component, request.secret_env)
                self._asked_at = time.monotonic()
                self._wake.set()
            return self._started[component.name]

    def _check_live(self) -> None:
        if self._end is not None:
            what = f"is over ({self._end.state}: {self._end.reason})"
            raise RunStateError(over_message(self.run.run_id, self.run.attempt, what=what))

    async def _prepare(self) -> dict[str, LocalComponent]:
        if self._planned is not None:
            return self._planned
        try:
            plan = plan_from_json(self.run.directory.plan.read_bytes())
            prepare = load_prepare(self.request.prepare)
            made = await asyncio.to_thread(
                prepare,
                self.run.directory,
                plan,
                base_port=self._claim.base_port,
                devices=self._devices,
            )
        except Exception as error:  # the process boundary: it becomes the run's reason
            _LOG.exception("the run cannot be prepared")
            reason = f"the run cannot be prepared: {type(error).__name__}: {error}"
            self._end = self._end or Transition(state=RunState.FAILED, reason=reason)
            self._wake.set()
            raise SupervisorError(f"{self.run.run_id}: {reason}") from None
        self._facts = PlanFacts(
            components=tuple(component.name for component in made), max_steps=plan.max_steps
        )
        self._planned = {component.name: component for component in made}
        return self._planned

    def _spawn(self, component: LocalComponent, secret_env: dict[str, str]) -> Started:
        for port in component.ports:
            ports.release_port(self._held.pop(port, ()))
        pid = spawn(self.run, component, secret_env)
        self._wrappers[pid] = component
        wrapper = identify(pid)
        return Started(
            component=component.name,
            pid=pid,
            start_ticks=wrapper.start_ticks if wrapper else 0,
            ports=component.ports,
            log=component.log,
            started_at=time.time(),
        )

    def _reap(self) -> None:
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            component = self._wrappers.pop(pid, None)
            if component is not None:
                record_wrapper_death(self.run, component, pid=pid, wait_status=wait_status)
                self._wake.set()

    def _stop(self, reason: str) -> None:
        if self._end is None:
            self._end = Transition(state=RunState.STOPPED, reason=reason)
            self._wake.set()

    def _look(self) -> Transition | None:
        """Write what has come to pass; return the transition that ends the run, if one does."""
        if self._end is not None:
            return self._end
        try:
            transition = self._observe()
        except OSError as error:  # a full disk, say; the next look may do better
            if str(error) != self._trouble:  # once, not twice a second
                self._trouble = str(error)
                _LOG.error("the run cannot be looked at: %s", error)
            return None
        except PaddockError as error:
            return Transition(state=RunState.STOPPED, reason=f"its record is damaged: {error}")
        self._trouble = ""
        return transition

    def _observe(self) -> Transition | None:
        record = read_record(self.run.directory.record)
        if record is None or record.attempt != self.run.attempt or record.is_over:
            return Transition(state=RunState.STOPPED, reason="its record was taken away")
        observation = watch(self.run)
        transition = judge(observation, record, self._facts) or self._overdue()
        if transition is None and self._started and may_follow(record.state, RunState.CREATING):
            transition = Transition(state=RunState.CREATING)
        if transition is None or is_terminal(transition.state):
            return transition
        advance(self.run.directory.record, transition.state, attempt=self.run.attempt)
        return None

    def _overdue(self) -> Transition | None:
        if self._planned is not None and len(self._started) == len(self._planned):
            return None
        limit_s = self.request.patience_s(is_busy=self._preparing.locked())
        if time.monotonic() - self._asked_at < limit_s:
            return None
        names = ", ".join(name for name in self._planned or () if name not in self._started)
        return Transition(
            state=RunState.FAILED,
            reason=f"interrupted: it did not start {names or 'any component'} within {limit_s:g} s",
        )

    async def _finish(self, transition: Transition) -> None:
        grace_s = limits.STOP_GRACE_S
        if transition.state is RunState.FAILED:
            grace_s = FAILURE_GRACE_S
        for pid in self._wrappers:
            os.kill(pid, signal.SIGTERM)  # ours and not yet reaped, so the pid is right
        deadline = time.monotonic() + grace_s
        while self._wrappers and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        find = partial(run_processes, self.run, spare=frozenset({os.getpid()}))
        while not await asyncio.to_thread(end_processes, find, grace_s=0.0):
            _LOG.error("processes of the run do not end: %s", find())
        self._reap()
        for held in self._held.values():
            ports.release_port(held)
        remove_private(self.run)
        claims.release(self.run)
        self._write_end(transition)
        supervisor_wire.remove_socket(self.run)
        remove_index(self.run)

    def _write_end(self, transition: Transition) -> None:
        try:
            write_transition(self.run, transition)
        except (PaddockError, OSError) as error:
            _LOG.warning("the record cannot be written, the attempt is barred: %s", error)
            bar_attempt(self.run)


def main() -> None:
    """Leave the starter's process tree, then supervise the run that the command line describes."""
    request = supervisor_wire.START_RUN.validate_json(sys.argv[1])
    if os.fork() > 0:
        os._exit(0)  # the starter waits for this process only
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    adopt_orphans()
    run = request.run
    claim = claims.hand_over(run, this_process()) if supervise_alone(run) else None
    if claim is None:
        _LOG.error("%s attempt %d: no claim, or supervised", run.run_id, run.attempt)
        sys.exit(1)
    write_index(
        run.state_path,
        IndexEntry(
            run_id=run.run_id,
            run_path=str(run.run_path),
            attempt=run.attempt,
            config_digest=request.config_digest,
            supervisor=this_process(),
        ),
    )
    asyncio.run(_supervise(request, claim))


async def _supervise(request: StartRun, claim: claims.Claim) -> None:
    devices = claims.devices_of(request.run.state_path, claim)
    await Supervisor(request, claim, devices).supervise()


if __name__ == "__main__":
    main()
