"""What the reconciler sees of a Kubernetes cluster: one watch and one observer for all its runs.

The observer writes what follows into the runs' records (compare-and-set, as `paddock wait` does).
The place of a single run on it is `runtime.control.pod_runs`.
"""

import contextlib
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from runtime import naming
from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.config import load_stored_config
from runtime.control.places import FoundRun, Leftover
from runtime.control.rooms import ClusterRoom, NodeRoom
from runtime.errors import PaddockError
from runtime.kubernetes_api import KINDS, ForbiddenError, KubernetesApi, KubernetesError
from runtime.kubernetes_nodes import gpu_type_of, node_fact
from runtime.kubernetes_teardown import REST, WORKLOADS
from runtime.observe.kubernetes.headroom import NodeHeadroom, gpus_of, headroom
from runtime.observe.kubernetes.objects import unix_time
from runtime.observe.kubernetes.observer import LOOK_S, RunObserver, RunView
from runtime.observe.kubernetes.run_files import RunFiles
from runtime.observe.kubernetes.watch import RunWatch, open_watch
from runtime.plan import build_plan, plan_to_json
from runtime.pod_layout import TOML_FILE
from runtime.pod_names import config_map_name
from runtime.run_record import RunRecord

Manifest = Mapping[str, Any]  # Any: a Kubernetes object

_LOG = logging.getLogger(__name__)
ROOM_S = 2.0
"""How long a look at all nodes and pods is good for; a promotion may wait ten seconds."""

_SILENT_S = 10.0
"""A connection may break and be there again before anybody needs to hear of it."""

_BATCH = 50
"""Runs that are asked for in one request, which names them all: a list costs the API server all
objects of the namespace, however few it returns."""

_ALL_PODS = replace(KINDS["Pod"], is_namespaced=False)
"""Pods of every namespace: all of them hold GPUs."""


class PodSight:
    """The watch and the observer of one cluster; safe to use from several threads."""

    def __init__(self, profile: ClusterProfile, api: KubernetesApi, watch: RunWatch) -> None:
        """Observe through these; `open_sight` makes them."""
        self.profile = profile
        self.api = api
        self.files = RunFiles(api)
        self._watch = watch
        self._observer = RunObserver(api, watch, self.files)
        self._views: dict[str, tuple[float, RunView | None]] = {}
        self._owned: dict[str, list[Leftover]] = {}
        self._configs: dict[tuple[str, int], tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._room: tuple[float, ClusterRoom] | None = None

    def refresh(self) -> None:
        """Take in which runs have changed; raises what makes watching impossible."""
        changed, now = self._watch.changes(0), time.monotonic()
        for run_id, (seen_at, _) in list(self._views.items()):
            if run_id in changed or now - seen_at >= LOOK_S:
                self._views.pop(run_id, None)

    def close(self) -> None:
        """Stop watching."""
        self._watch.__exit__(None, None, None)
        self.api.close()

    @property
    def is_current(self) -> bool:
        """Tell whether everything has been listed and the API answers."""
        return self._watch.is_current

    def view(self, run_id: str) -> RunView | None:
        """Return the view of a run, judged again after a change and every few seconds."""
        known = self._views.get(run_id)
        if known is not None and time.monotonic() - known[0] < LOOK_S:
            return known[1]
        view = self._observer.settle(run_id)
        self._views[run_id] = (time.monotonic(), view)
        return view

    def forget(self, run_id: str) -> None:
        """Judge a run again at the next look."""
        self._watch.touch(run_id)
        self._views.pop(run_id, None)

    def room(self) -> ClusterRoom:
        """Return the cluster's room, as of at most some seconds ago; one not known says why.

        A cluster that does not answer is not asked: that would hold up all others.
        """
        if not self.is_current:
            return self._silent_room()
        with self._lock:
            if self._room is not None and time.monotonic() - self._room[0] < ROOM_S:
                return self._room[1]
            try:
                room = self._read_room()
            except KubernetesError as error:
                room = self._unknown_room(
                    f"what is free on {self.profile.name} is not known: {error}"
                )
                if self._room is None or self._room[1] != room:
                    _LOG.warning("%s", room.trouble)
            self._room = (time.monotonic(), room)
            return room

    def _silent_room(self) -> ClusterRoom:
        """Return the last room in a moment of silence, later one that says so."""
        since = self._watch.unreachable_since
        if since is not None and time.time() - since >= _SILENT_S:
            unread = self._watch.unread
            return self._unknown_room(
                f"not everything on {self.profile.name} can be read: {unread}"
                if unread
                else f"cluster {self.profile.name} does not answer"
            )
        if self._room is not None:
            return self._room[1]
        return self._unknown_room(f"cluster {self.profile.name} is being looked at")

    def _unknown_room(self, trouble: str) -> ClusterRoom:
        return ClusterRoom(profile=self.profile, nodes=(), trouble=trouble)

    def _read_room(self) -> ClusterRoom:
        if self.profile.queue is not None:
            return ClusterRoom(profile=self.profile, nodes=(), queues=True)
        offer = self.profile.kubernetes
        live = "status.phase!=Succeeded,status.phase!=Failed"
        pods = self.api.list(_ALL_PODS, fields=live)
        held: dict[str, Counter[str]] = defaultdict(Counter)
        for pod in pods:
            run_id = (pod["metadata"].get("labels") or {}).get(naming.LABEL_RUN)
            node = pod["spec"].get("nodeName")
            if run_id and node:
                held[node][run_id] += gpus_of(pod)
        tolerations = offer.tolerations if offer is not None else ()
        listed = self.api.list("Node")
        found = headroom(listed, pods, tolerations=tolerations)
        found += _without_gpus(listed, {one.node for one in found})
        nodes = tuple(
            NodeRoom(
                name=one.node,
                gpu_type=one.gpu_type,
                num_gpus=0 if one.barrier else one.num_gpus,
                num_free=one.num_free,
                held=dict(held.get(one.node, {})),
            )
            for one in found
        )
        return ClusterRoom(profile=self.profile, nodes=nodes)

    def found_runs(self) -> list[FoundRun]:
        """Return the runs of the namespace that live; each one's objects are looked at once."""
        found = []
        open_ids = self._watch.open_run_ids()
        is_open = set(open_ids)
        for run_id in self._owned.keys() - is_open:
            del self._owned[run_id]
        for key in [key for key in self._configs if key[0] not in is_open]:
            del self._configs[key]
        objects = self._objects(open_ids)
        for run_id in open_ids:
            record = self._watch.record(run_id)
            if record is not None:
                one = _found(self.profile, record, objects[run_id])
                found.append(one if one.control_plane_id else self._described(one))
        return found

    def _described(self, found: FoundRun) -> FoundRun:
        """Return a run that nobody signed with the TOML of its ConfigMap, and its plan."""
        record = found.record
        key = (record.run_id, record.attempt)
        if key not in self._configs:
            launch = self.api.get("ConfigMap", config_map_name(*key)) or {}
            toml = str((launch.get("data") or {}).get(TOML_FILE, ""))
            if not toml:  # it is made after the record
                return found
            self._configs[key] = (toml, _plan_json(self.profile, record, toml))
        toml, plan = self._configs[key]
        return replace(found, config_text=toml, plan_json=plan)

    def _objects(self, run_ids: Iterable[str]) -> dict[str, list[Leftover]]:
        """Return the Jobs and pods of each run, as they were when it had any that holds GPUs."""
        listed: dict[str, list[Leftover]] = {}
        new = [run_id for run_id in run_ids if run_id not in self._owned]
        for first in range(0, len(new), _BATCH):
            batch = new[first : first + _BATCH]
            listed |= {run_id: [] for run_id in batch}
            labels = f"{naming.LABEL_RUN} in ({','.join(batch)})"
            for kind in ("Job", "Pod"):
                for one in self.api.list(kind, labels=labels):
                    found = _leftover(self.profile, kind, one)
                    listed[found.run_id].append(found)
        for run_id, objects in listed.items():
            if any(one.num_gpus for one in objects):
                self._owned[run_id] = objects
        return {**self._owned, **listed}

    def leftovers(self) -> list[Leftover]:
        """Return every object that carries a run's label, as far as it may be listed."""
        found = []
        for kind in (*WORKLOADS, *REST):
            if not KINDS[kind].is_namespaced:
                continue
            try:
                objects = self.api.list(kind, labels={naming.LABEL_MANAGED_BY: naming.PROJECT})
            except ForbiddenError:
                continue
            except KubernetesError as error:
                if error.status != 404:  # an API that the cluster does not serve
                    raise
                continue
            found += [_leftover(self.profile, kind, one) for one in objects if _is_owned(one)]
        return found


def open_sight(profile: ClusterProfile) -> PodSight:
    """Connect to a cluster and begin to watch all runs of its namespace."""
    assert isinstance(profile.connection, KubernetesConnection), "a cluster of nodes"
    api = KubernetesApi.connect(profile.connection)
    watch = open_watch(api, has_queue=profile.queue is not None)
    watch.__enter__()
    return PodSight(profile, api, watch)


def _found(profile: ClusterProfile, record: RunRecord, objects: list[Leftover]) -> FoundRun:
    return FoundRun(
        cluster=profile.name,
        record=record,
        control_plane_id=next(
            (one.control_plane_id for one in objects if one.control_plane_id), ""
        ),
        gpu_type=next((one.gpu_type for one in objects if one.gpu_type), ""),
        num_gpus=sum(one.num_gpus for one in objects),
    )


def _plan_json(profile: ClusterProfile, record: RunRecord, toml: str) -> str:
    """Return the plan that the run's own `up` made of its TOML, empty where that cannot be told."""
    with contextlib.suppress(PaddockError):
        loaded = load_stored_config(toml, allow_unknown_fields=True)
        plan = build_plan(loaded, run_id=record.run_id, attempt=record.attempt, profile=profile)
        return plan_to_json(plan)
    return ""


def _without_gpus(nodes: Iterable[Manifest], known: Container[str]) -> Iterator[NodeHeadroom]:
    """Yield the nodes that are of a type and have no GPU now: new, or their plugin is away."""
    for node in nodes:
        fact = node_fact(node)
        named = gpu_type_of(fact.labels)
        if named is not None and fact.name not in known:
            yield NodeHeadroom(node=fact.name, gpu_type=named[0], num_gpus=0, num_free=0)


def _is_owned(manifest: Manifest) -> bool:
    return naming.LABEL_RUN in (manifest["metadata"].get("labels") or {})


def _leftover(profile: ClusterProfile, kind: str, manifest: Manifest) -> Leftover:
    metadata = manifest["metadata"]
    created = unix_time(metadata.get("creationTimestamp"))
    num_gpus = gpus_of(manifest) if kind == "Pod" else 0
    selector = (manifest.get("spec") or {}).get("nodeSelector") or {} if kind == "Pod" else {}
    known = gpu_type_of(selector)
    types = [offer.name for offer in profile.gpus]
    return Leftover(
        cluster=profile.name,
        kind=kind,
        name=str(metadata["name"]),
        run_id=str(metadata["labels"][naming.LABEL_RUN]),
        control_plane_id=str(metadata["labels"].get(naming.LABEL_CONTROL_PLANE, "")),
        gpu_type=(known[0] if known else types[0]) if num_gpus and types else "",
        num_gpus=num_gpus,
        started_at=datetime.fromtimestamp(created, UTC) if created is not None else None,
    )
