"""Orphans: objects that a run left behind in a namespace. Found and named, never touched.

An object is one when it carries a run's label and the run's record says that it is torn down, or
is at a later attempt, or does not exist. `paddock destroy RUN` removes it.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime import naming
from runtime.kubernetes_api import ForbiddenError, KubernetesApi
from runtime.kubernetes_teardown import list_served
from runtime.observe.kubernetes.look import read_records
from runtime.observe.kubernetes.objects import unix_time
from runtime.run_record import RunRecord
from runtime.states import Teardown

Manifest = Mapping[str, Any]  # Any: JSON values of the API's objects

KINDS = ("JobSet", "Job", "Pod", "Service", "ConfigMap", "Secret", "PodGroup")

_YOUNG_S = 300.0
"""A run whose objects are being made has no record for a moment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Orphan:
    """One object that no live run has."""

    kind: str
    name: str
    run_id: str
    why: str

    def __str__(self) -> str:
        """Return the orphan on one line, with what to do."""
        return (
            f"left behind: {self.kind} {self.name} of {self.run_id} ({self.why}): "
            f"paddock destroy {self.run_id}"
        )


def find_orphans(api: KubernetesApi) -> list[Orphan]:
    """Return what runs left behind in the API's namespace, as far as it may be listed."""
    objects: list[Manifest] = []
    selector = {naming.LABEL_MANAGED_BY: naming.PROJECT}
    for kind in KINDS:
        try:
            objects += list_served(api, kind, labels=selector)
        except ForbiddenError:
            continue
    return orphans(objects, read_records(api), now=time.time())


def orphans(
    objects: Iterable[Manifest], records: Iterable[RunRecord], *, now: float
) -> list[Orphan]:
    """Return the objects that belong to no run that lives or waits for its teardown."""
    known = {record.run_id: record for record in records}
    found = []
    for one in objects:
        meta = one.get("metadata") or {}
        labels = meta.get("labels") or {}
        run_id = labels.get(naming.LABEL_RUN)
        if run_id is None:
            continue
        age_s = now - (unix_time(meta.get("creationTimestamp")) or now)
        why = _why(known.get(run_id), labels.get(naming.LABEL_ATTEMPT, ""), age_s)
        if why:
            name = str(meta.get("name", ""))
            found.append(Orphan(kind=str(one.get("kind")), name=name, run_id=run_id, why=why))
    return found


def _why(record: RunRecord | None, attempt: str, age_s: float) -> str:
    if record is None:
        return "it has no record" if age_s > _YOUNG_S else ""
    if record.is_over and record.teardown is Teardown.DONE:
        return f"its record says {record.state} and torn down"
    if attempt.isdigit() and int(attempt) < record.attempt and age_s > _YOUNG_S:
        return f"its run is at attempt {record.attempt}"
    return ""
