"""Services for tests of the API: the real store and real admission, with scripted readings."""

import json
from dataclasses import dataclass, field, replace

from pydantic import JsonValue
from sqlalchemy import Connection

from runtime.admission import admission_problems
from runtime.config import DispatchFlags, load_config
from runtime.control.dispatch_rules import no_volume
from runtime.control.dispatcher import volume_stack
from runtime.control.requests import (
    CreateRun,
    CreateVolume,
    FeedbackNote,
    ResumeRun,
)
from runtime.control.services import Services
from runtime.control.store import idempotency, queue, runs, volumes
from runtime.control.store.store import Store
from runtime.control.stored_services import StoredAccounts, StoredRuns, StoreHealth
from runtime.control.values import NewRun, StoredRun, User, Volume, VolumeStatus, Wish
from runtime.errors import NotFoundError, RefusedError, RunStateError
from runtime.naming import new_run_id
from runtime.plan import build_plan, plan_to_json
from runtime.states import RunState
from tests.runtime.control.api.fake_readings import NOON, FakeCatalog, FakeReads


@dataclass(kw_only=True)
class FakeDispatcher:
    """Judges a config as every dispatcher does, and stores the run."""

    store: Store
    seen: list[CreateRun] = field(default_factory=list)

    def create(self, user: User, request: CreateRun, idempotency_key: str | None) -> StoredRun:
        """Admit and store a run."""
        self.seen.append(request)
        flags = DispatchFlags(
            image_tag=request.image_tag,
            gpu_type=request.gpu_type,
            volume=request.volume,
            name=request.name,
        )
        loaded = load_config(request.config_text, flags=flags)
        run_id = new_run_id()
        plan = replace(build_plan(loaded, run_id=run_id), price_usd_per_hour=5.0)
        problems = admission_problems(plan)
        if problems:
            raise RefusedError(problems)
        with self.store.write() as connection:
            stack = _volume_stack(connection, user, request)
            if idempotency_key is not None:
                key = idempotency.RequestKey(
                    user_id=user.user_id, key=idempotency_key, digest=request.digest
                )
                first = idempotency.claim_key(connection, key, run_id)
                if first != run_id:
                    found = runs.get_run(connection, first)
                    assert found is not None
                    return found
            new = NewRun(
                run_id=run_id,
                user_id=user.user_id,
                team_id=request.team_id,
                name=plan.name,
                model=plan.model,
                environments=plan.tasksets,
                config_text=loaded.text,
                config_digest=loaded.digest,
                plan_json=plan_to_json(plan),
                settings={"volume": stack} if stack is not None else {},
                secret_names=tuple(sorted(request.secrets)),
                gpu_type=request.gpu_type,
                num_gpus=plan.num_gpus,
                max_steps=plan.max_steps,
                queue_number=queue.next_queue_number(connection),
                reason="no cluster has 2 free GPUs",
            )
            return runs.insert_run(connection, new)


def _volume_stack(connection: Connection, user: User, request: CreateRun) -> str | None:
    """Return what a dispatcher stores of the volume that a request names."""
    if request.volume is None:
        return None
    owner = {"user_id": user.user_id, "team_id": request.team_id}
    volume = volumes.get_volume(connection, request.volume, **owner)
    if volume is None:
        raise no_volume(request.volume)
    return volume_stack(volume)


@dataclass(kw_only=True)
class FakeIntents:
    """Does at once what the reconciler would do later, but for a pause and the end of a pause."""

    store: Store
    resumed: list[ResumeRun] = field(default_factory=list)

    def stop(self, user: User, run_id: str) -> StoredRun:
        """End a run."""
        run = self._run(run_id)
        if run.is_over:
            return run
        state = run.state if run.state is RunState.PAUSED else RunState.STOPPED
        return self._set(run, wish=Wish.STOP, state=state)

    def pause(self, user: User, run_id: str) -> StoredRun:
        """Pause a run."""
        run = self._run(run_id)
        if run.state is not RunState.RUNNING:
            raise RunStateError(f"only a RUNNING run can be paused, this one is {run.state}")
        return self._set(run, wish=Wish.PAUSE)

    def resume(self, user: User, run_id: str, request: ResumeRun) -> StoredRun:
        """Resume a run."""
        self.resumed.append(request)
        run = self._run(run_id)
        return self._set(run, wish=Wish.RUN, state=RunState.QUEUED, attempt=run.attempt + 1)

    def restart(self, user: User, run_id: str) -> StoredRun:
        """Restart a run; the message has what a terminal would take for markup."""
        run = self._run(run_id)
        if run.state is not RunState.RUNNING:
            raise RunStateError(f"[bold]only a RUNNING run restarts[/x], this one is {run.state}")
        return self._set(run, state=RunState.PENDING, attempt=run.attempt + 1)

    def delete(self, user: User, run_id: str) -> None:
        """Delete a run."""
        self._set(self._run(run_id), wish=Wish.DELETE, deleted_at=NOON)

    def _run(self, run_id: str) -> StoredRun:
        with self.store.read() as connection:
            run = runs.get_run(connection, run_id)
        assert run is not None
        return run

    def _set(self, run: StoredRun, **changes: object) -> StoredRun:
        key = run.run_id, run.version
        with self.store.write() as connection:
            changed = runs.compare_and_set(connection, *key, fence=None, **changes)
        assert changed is not None
        return changed


@dataclass(kw_only=True)
class FakeVolumes:
    """Makes volumes in the store, ready at once."""

    store: Store

    def page(self, user: User, team_id: str | None) -> tuple[Volume, ...]:
        """Return all."""
        with self.store.read() as connection:
            found = volumes.list_volumes(connection, user_id=user.user_id, team_id=team_id)
        return tuple(found)

    def create(self, user: User, request: CreateVolume) -> Volume:
        """Make one."""
        new = volumes.NewVolume(
            name=request.name,
            user_id=user.user_id,
            team_id=request.team_id,
            size=request.size,
            cluster=request.cluster or "east",
            claim_name=f"pvc-{request.name}",
        )
        with self.store.write() as connection:
            made = volumes.add_volume(connection, new)
            ready = volumes.change_volume(connection, made.volume_id, status=VolumeStatus.RUNNING)
        assert ready is not None
        return ready

    def expand(self, user: User, name: str, *, size: str, team_id: str | None) -> Volume:
        """Change the size."""
        with self.store.write() as connection:
            found = volumes.get_volume(connection, name, user_id=user.user_id, team_id=team_id)
            changed = (
                volumes.change_volume(connection, found.volume_id, size=size) if found else None
            )
        if changed is None:
            raise NotFoundError("Volume not found")
        return changed

    def delete(self, user: User, name: str, *, team_id: str | None) -> None:
        """Forget it."""
        with self.store.write() as connection:
            found = volumes.get_volume(connection, name, user_id=user.user_id, team_id=team_id)
            if found is None:
                raise NotFoundError("Volume not found")
            volumes.remove_volume(connection, found.volume_id)


@dataclass(kw_only=True)
class FakeFeedback:
    """Keeps notes in a list."""

    notes: list[FeedbackNote] = field(default_factory=list)

    def add(self, user: User, note: FeedbackNote) -> None:
        """Keep one."""
        self.notes.append(note)


def fake_services(store: Store) -> Services:
    """Return services over a real store."""
    return Services(
        accounts=StoredAccounts(store),
        runs=StoredRuns(store),
        dispatcher=FakeDispatcher(store=store),
        intents=FakeIntents(store=store),
        reads=FakeReads(),
        catalog=FakeCatalog(),
        volumes=FakeVolumes(store=store),
        feedback=FakeFeedback(),
        health=StoreHealth(store),
    )


def seed_config() -> dict[str, JsonValue]:
    """Return the config that `prime` sends for the hosted service's single-node example."""
    return json.loads(_SEED)


_SEED = """
{"name": "reverse-text-hosted", "max_steps": 100, "seq_len": 2048,
 "model": {"name": "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"},
 "deployment": {"num_train_gpus": 1, "num_infer_gpus": 1}, "trainer": {"optim": {"lr": 3e-06}},
 "orchestrator": {"batch_size": 64,
  "train": {"group_size": 8, "sampling": {"max_completion_tokens": 512},
   "source": [{"name": "reverse-text", "env": {"taskset": {"id": "reverse-text"},
    "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}}}]},
  "renderer": {"name": "prime-qwen3"}}, "inference": {}}
"""
