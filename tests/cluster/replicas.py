"""Hosts whose servers share a cluster of real pods: database, stacks and captures are in common.

Each has its own PADDOCK_HOME, by which all that it runs is found when it is killed. And what is
seen of the Jobs and pods of a namespace all the time: none that was there for a moment is missed.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from runtime.control.bucket_store import BucketStore
from runtime.control.lease_keeper import SHARDS, shard_of
from runtime.control.operations import OperationKind, OperationState
from runtime.control.projects import run_folder
from runtime.control.store import leases
from runtime.control.store.store import Store, open_store
from runtime.kubernetes_api import KubernetesApi, Manifest
from runtime.kubernetes_errors import UnreachableError
from tests.cluster.planes import CREDIT, Plane
from tests.cluster.runs import Runs, open_runs
from tests.cluster.sites import open_api
from tests.engine.sites import Site
from tests.runtime.control.operating.served import Served, add_user, serving
from tests.runtime.control.postgres import made_database, running_postgres
from tests.runtime.control.prime.client import Prime, prime_program
from tests.runtime.control.reading.s3 import BUCKET, serving_s3
from tests.testbed.cluster import Testbed
from tests.testbed.layout import CONTEXT
from tests.waiting import wait_for

STATES = "states"
PASSPHRASE = "known to both"
SHARED_S = 120.0
WATCH_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """Two hosts of one deployment, a user of it who can pay, and the lab that both serve."""

    lab: Runs
    other: Site
    store: Store
    user: Prime

    @contextmanager
    def serve(self, site: Site) -> Iterator[Plane]:
        """Run a server on a host until the end of the block, or until that is killed."""
        with serving(site) as served:
            prime = replace(self.user, url=served.url)
            try:
                yield Plane(lab=replace(self.lab, site=site), served=served, prime=prime)
            except AssertionError:
                print("".join(served.lines[-40:]))  # why, beside what was waited for
                raise

    def leases(self) -> dict[str, str]:
        """Return who has each lease that somebody has."""
        with self.store.read() as tx:
            return {one.name: one.holder for one in leases.list_held(tx)}

    def is_of(self, plane: Plane, run_id: str) -> bool:
        """Tell whether a server is the one that brings a run to its end."""
        return _is_name_of(plane.served, self.leases().get(shard_of(run_id), ""))

    def share(self, *planes: Plane) -> None:
        """Wait until two servers have half of the runs to be."""

        def is_shared() -> bool:
            held = self.leases()
            shards = [held.get(name, "") for name in SHARDS]
            numbers = [sum(_is_name_of(one.served, name) for name in shards) for one in planes]
            return numbers == [len(SHARDS) // 2] * 2

        wait_for(is_shared, timeout_s=SHARED_S)


def _is_name_of(served: Served, holder: str) -> bool:
    return f"-{served.process.pid}-" in holder


@contextmanager
def open_replicas(testbed: Testbed, folder: Path) -> Iterator[Replicas]:
    """Make two hosts without a server, and the cluster stack that is in the backend of both."""
    with (
        pytest.MonkeyPatch.context() as patch,
        running_postgres() as postgres,
        serving_s3(buckets=(BUCKET, STATES)) as s3,
    ):
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        url = f"{postgres}/{made_database(postgres, 'replicas')}"
        shared = {
            "PULUMI_BACKEND_URL": f"s3://{STATES}?endpoint={s3.url}&s3ForcePathStyle=true",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PADDOCK_ARTIFACTS": f"s3://{BUCKET}",
            "PADDOCK_DATABASE": url,
        }
        first = folder / "first"
        with closing(open_store(url)) as store, open_runs(testbed, first, shared) as lab:
            home = {"PADDOCK_HOME": str(folder / "second" / "home")}
            project = replace(lab.site.project, environment={**lab.site.environment, **home})
            other = Site(folder=folder / "second", project=project)
            try:
                user = _add_user(lab.site, folder / "user")
                yield Replicas(lab=lab, other=other, store=store, user=user)
            finally:
                other.kill_everything()


def _add_user(site: Site, home: Path) -> Prime:
    home.mkdir()
    token = add_user(site, "ada")
    site.paddock("wallet", "credit", "ada", CREDIT)
    return Prime(program=prime_program(), url="", token=token, home=home)


def is_in_up(plane: Plane, run_id: str) -> bool:
    """Tell whether a worker of a host is bringing a run's stack up."""
    found = run_folder(run_id, plane.lab.site.home).read()
    if found is None or found.report.kind is not OperationKind.UP:
        return False
    return found.report.state is OperationState.RUNNING


def kill_host(plane: Plane) -> None:
    """SIGKILL all that a host runs: its server, workers, engines and their providers."""
    site = plane.lab.site

    def is_dead() -> bool:
        site.kill_everything()
        return not site.processes()

    wait_for(is_dead)
    plane.served.process.wait()


def locks(run_id: str = "") -> list[str]:
    """Return the keys of the locks in the common backend, on a run's stack or on any."""
    stack = f"organization/paddock/{run_id}/" if run_id else ""
    return list(BucketStore(f"s3://{STATES}").keys(f".pulumi/locks/{stack}"))


@dataclass(kw_only=True)
class Sightings:
    """Every Job and pod that a namespace ever had, by uid, as each was seen last."""

    found: dict[str, Manifest] = field(default_factory=dict)

    def of(self, run_id: str, kind: str) -> list[Manifest]:
        """Return those of a run of a kind, the earliest made first."""
        every = [one for one in list(self.found.values()) if one["kind"] == kind]
        labels = [one["metadata"].get("labels", {}) for one in every]
        pairs = zip(every, labels, strict=True)
        return [one for one, label in pairs if label.get("paddock.dev/run") == run_id]

    def uids(self, run_id: str, kind: str) -> dict[str, list[str]]:
        """Return the uids that each name of a kind ever had."""
        uids: dict[str, list[str]] = {}
        for one in self.of(run_id, kind):
            uids.setdefault(one["metadata"]["name"], []).append(one["metadata"]["uid"])
        return uids

    def groups(self, run_id: str) -> list[str]:
        """Return the component of each pod that a run ever had."""
        pods = self.of(run_id, "Pod")
        return sorted(one["metadata"]["labels"]["paddock.dev/replicated-job"] for one in pods)

    def note(self, one: Manifest) -> None:
        """Note an object as it is now."""
        self.found[one["metadata"]["uid"]] = one


@contextmanager
def sighting(lab: Runs) -> Iterator[Sightings]:
    """Watch the Jobs and pods of a lab's namespace until the end of the block."""
    sightings, is_over = Sightings(), threading.Event()
    with (
        closing(open_api(lab.testbed, CONTEXT, lab.namespace)) as api,
        ThreadPoolExecutor(2) as pool,
    ):
        watches = [pool.submit(_watch, api, kind, sightings, is_over) for kind in ("Job", "Pod")]
        try:
            yield sightings
        finally:
            is_over.set()
        for one in watches:
            one.result()


def _watch(api: KubernetesApi, kind: str, sightings: Sightings, is_over: threading.Event) -> None:
    while not is_over.is_set():
        items, version = api.list_with_version(kind)
        for one in items:
            sightings.note(one)
        with suppress(UnreachableError):  # the line broke; what is there is listed again
            for change, one in api.watch(kind, resource_version=version, timeout_s=WATCH_S):
                if change != "BOOKMARK":
                    sightings.note(one)


@dataclass(frozen=True, kw_only=True)
class GpuTime:
    """How many GPUs a pod had, from the start of its first container to the end of its last."""

    num_gpus: int
    began: datetime
    ended: datetime


def gpu_times(pods: list[Manifest]) -> dict[str, GpuTime]:
    """Return the times of the pods with GPUs, which have ended, by uid."""
    found = {}
    for pod in pods:
        limits = [one["resources"].get("limits", {}) for one in pod["spec"]["containers"]]
        num_gpus = sum(int(one.get("nvidia.com/gpu", 0)) for one in limits)
        if num_gpus:
            ends = [_end(one) for one in _containers(pod)]
            began = min(datetime.fromisoformat(one["startedAt"]) for one in ends)
            ended = max(datetime.fromisoformat(one["finishedAt"]) for one in ends)
            uid = pod["metadata"]["uid"]
            found[uid] = GpuTime(num_gpus=num_gpus, began=began, ended=ended)
    return found


def _containers(pod: Manifest) -> list[dict[str, Any]]:
    status = pod["status"]
    return [*status.get("initContainerStatuses", []), *status["containerStatuses"]]


def _end(container: dict[str, Any]) -> dict[str, str]:
    ended = container["state"].get("terminated")
    assert ended is not None, f"the end of {container['name']} was not seen"
    return ended
