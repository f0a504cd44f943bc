"""Runs on this machine as the reconciler sees them: record, index, claims and marked processes.

Counterpart of `runtime.control.pod_runs`. A pass reads the claims once and scans /proc at most once
for all runs. What ends and settles a run is `runtime.run_end`, as by hand.
"""

import contextlib
import os
import socket
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from runtime import claims, naming, run_end
from runtime.artifacts import RunDirectory
from runtime.checkpoints import steps_of
from runtime.claims import Claim
from runtime.cluster import ClusterProfile, LocalConnection
from runtime.control.places import FoundRun, Leftover, PodUse, Seen
from runtime.control.rooms import ClusterRoom, NodeRoom
from runtime.control.values import StoredRun, Wish
from runtime.errors import PaddockError
from runtime.local_state import LocalRun, home_id, list_runs, read_cluster, read_index
from runtime.observe.judge import Transition
from runtime.processes import marked_processes
from runtime.record import read_record
from runtime.run_record import RunRecord
from runtime.states import RunState, Teardown

SLOTS = "slots"
"""The source of a local run's usage: its slots are claimed and released together."""


class LocalSight:
    """What a pass looks up once for all runs of a local cluster."""

    def __init__(self, profile: ClusterProfile) -> None:
        """Look at this cluster; nothing is read yet."""
        assert isinstance(profile.connection, LocalConnection), "the local target"
        self.profile = profile
        self.state_path = Path(profile.connection.state_path)
        self._claims: dict[str, Claim] | None = None
        self._counts: Counter[str] | None = None

    @property
    def is_current(self) -> bool:
        """Tell whether the cluster is this machine, and so what is read of it now."""
        return (self.state_path / "cluster.json").is_file()

    @property
    def trouble(self) -> str:
        """Return what there is to say of a cluster that is another machine, "" of this one."""
        if self.is_current:
            return ""
        return f"its machine is not {socket.gethostname()}, where this server is: start one there"

    def refresh(self) -> None:
        """Forget what was looked up."""
        self._claims = self._counts = None

    def claim(self, run_id: str) -> Claim | None:
        """Return what a run holds."""
        if self._claims is None:
            self._claims = {one.run_id: one for one in claims.read_claims(self.state_path)}
        return self._claims.get(run_id)

    def num_processes(self, run_id: str) -> int:
        """Return how many processes carry a run's mark; their children without it do not count."""
        if self._counts is None:
            self._counts = self._count()
        return self._counts[run_id]

    def room(self) -> ClusterRoom:
        """Return the cluster's room now: one node of slots."""
        if not self.is_current:
            words = f"cluster {self.profile.name} does not answer: {self.trouble}"
            return ClusterRoom(profile=self.profile, nodes=(), trouble=words)
        held = {one.run_id: len(one.slots) for one in claims.read_claims(self.state_path)}
        with contextlib.suppress(PaddockError):
            num_slots = len(read_cluster(self.state_path).devices)
            node = NodeRoom(
                name=self.profile.name,
                gpu_type=self.profile.gpus[0].name,
                num_gpus=num_slots,
                num_free=max(0, num_slots - sum(held.values())),
                held=held,
            )
            return ClusterRoom(profile=self.profile, nodes=(node,))
        return ClusterRoom(profile=self.profile, nodes=())

    def found_runs(self) -> list[FoundRun]:
        """Return the runs that live here, by their index entries and records."""
        found = []
        for entry in list_runs(self.state_path):
            directory = RunDirectory(Path(entry.run_path))
            with contextlib.suppress(PaddockError, OSError):
                record = read_record(directory.record)
                if record is not None:
                    held = self.claim(entry.run_id)
                    found.append(
                        FoundRun(
                            cluster=self.profile.name,
                            record=record,
                            control_plane_id=_text(directory.control_plane).strip(),
                            gpu_type=self.profile.gpus[0].name,
                            num_gpus=len(held.slots) if held else 0,
                            config_text=_text(directory.toml),
                            plan_json=_text(directory.plan),
                        )
                    )
        return found

    def leftovers(self) -> list[Leftover]:
        """Return the claims, index entries and processes of all runs of this cluster."""
        names = [("claim", one.run_id) for one in claims.read_claims(self.state_path)]
        names += [("index entry", one.run_id) for one in list_runs(self.state_path)]
        counts = self._count()
        names += [(f"{number} processes", run_id) for run_id, number in counts.items()]
        return [
            Leftover(
                cluster=self.profile.name,
                kind=kind,
                name=run_id,
                run_id=run_id,
                is_of_machine=True,
                gpu_type=self.profile.gpus[0].name,
                num_gpus=self._num_slots(kind, run_id),
            )
            for kind, run_id in names
        ]

    def _num_slots(self, kind: str, run_id: str) -> int:
        held = self.claim(run_id) if kind == "claim" else None
        return len(held.slots) if held else 0

    def _count(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        prefix = f"{home_id(self.state_path)}/".encode()
        name = naming.ENV_RUN_MARK.encode()

        def note(environment: dict[bytes, bytes]) -> bool:
            mark = environment.get(name, b"")
            if mark.startswith(prefix):
                counts[mark.removeprefix(prefix).partition(b"/")[0].decode()] += 1
            return False

        marked_processes(note)
        return counts


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalPlace:
    """The place of one run on this machine."""

    run: StoredRun
    sight: LocalSight
    volume_path: Path | None = None

    @property
    def local(self) -> LocalRun:
        """Return how the run's current attempt is addressed."""
        entry = read_index(self.sight.state_path, self.run.run_id)
        path = Path(self.sight.profile.runs_path) / self.run.run_id
        if entry is not None:
            path = Path(entry.run_path)
        elif self.volume_path is not None:
            path = self.volume_path / "runs" / self.run.run_id
        return LocalRun(
            state_path=self.sight.state_path,
            run_path=path,
            run_id=self.run.run_id,
            attempt=self.run.attempt,
        )

    def observe(self) -> Seen:
        """Return what record, index, claims and processes show now."""
        if not self.sight.is_current:
            return Seen(is_reachable=False, elsewhere=self.sight.trouble)
        local = self.local
        try:
            record = read_record(local.directory.record)
        except PaddockError as error:
            return Seen(warnings=(str(error),), num_left=self._seen_left())
        if record is None or record.attempt != self.run.attempt:
            return Seen(num_left=self._seen_left())
        is_unsettled = not record.is_over and not run_end.is_supervised(local)
        looks = record.is_over or is_unsettled or self.run.wish is not Wish.RUN
        return Seen(
            transition=Transition(state=record.state, reason=record.reason),
            since=record.times[-1].time,
            exit_details=record.exit,
            is_unsettled=is_unsettled,
            is_torn_down=record.teardown is Teardown.DONE,
            uses=self._uses(record),
            num_left=self._seen_left() if looks else 1,
            has_checkpoint_step=self._checkpoint(local.directory),
            warnings=record.warnings,
        )

    def settle(self) -> None:
        """Judge a run whose supervisor died, and free what it held."""
        run_end.settle_run(self.local)

    def end_workloads(self, reason: str) -> None:
        """End every process of this attempt and earlier ones, and bar it from starting."""
        run_end.release_run(self.local, reason=reason)

    def num_left(self) -> int:
        """Return how many processes of the run there are now, children without a mark too."""
        home = home_id(self.sight.state_path)
        prefix = naming.run_mark(home, self.run.run_id, 0).removesuffix("0").encode()
        name = naming.ENV_RUN_MARK.encode()
        return len(marked_processes(lambda found: found.get(name, b"").startswith(prefix)))

    def sweep(self, control_plane_id: str) -> None:
        """End and free whatever the run id still owns on this machine, where nothing is signed."""
        run_end.release_run(self.local, is_destroy=True)

    def _seen_left(self) -> int:
        held = self.sight.claim(self.run.run_id)
        return self.sight.num_processes(self.run.run_id) + (held is not None)

    def _uses(self, record: RunRecord) -> tuple[PodUse, ...]:
        times = [one for one in record.times if one.attempt == record.attempt]
        # slots are claimed just before PENDING is written, and let go with the end
        started = next((one.time for one in times if one.state is RunState.PENDING), None)
        if started is None or self.run.num_gpus == 0:
            return ()
        ended: datetime | None = record.times[-1].time if record.is_over else None
        use = PodUse(
            source=SLOTS,
            gpu_type=self.run.gpu_type or self.sight.profile.gpus[0].name,
            num_gpus=self.run.num_gpus,
            started_at=started,
        )
        return (replace(use, ended_at=ended),)

    def _checkpoint(self, directory: RunDirectory) -> int | None:
        if self.run.wish is not Wish.PAUSE:
            return None
        with contextlib.suppress(OSError):
            names = os.listdir(directory.checkpoints)
            # a folder gets this name once it is whole (runtime.rl.steps)
            return max(steps_of(names), default=None)
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
