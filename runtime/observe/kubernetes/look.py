"""Look: one run as it is right now, from a few lists; for commands that do not watch.

It is a Sight like a watch, so that the same observer judges by it.
"""

import time

from runtime import naming
from runtime.kubernetes_api import (
    KINDS,
    ForbiddenError,
    Kind,
    KubernetesApi,
    KubernetesError,
)
from runtime.kubernetes_kinds import KUEUE_VERSIONS
from runtime.kubernetes_record import record_of
from runtime.observe.kubernetes.facts import RunFacts
from runtime.observe.kubernetes.index import RunIndex
from runtime.pod_names import LABEL_RECORD, record_name
from runtime.run_record import RunRecord

_NEEDED = ("Job", "Pod")
_QUEUES = tuple(KINDS["Workload"].at(version) for version in KUEUE_VERSIONS)


class Look:
    """What one round of lists gave of a run."""

    is_current = True
    unreachable_since = None

    def __init__(self, api: KubernetesApi, run_id: str) -> None:
        """List everything of the run; raises KubernetesError where that cannot be done."""
        self._index = RunIndex(time.time)
        stored = api.get("ConfigMap", record_name(run_id))
        self._record = record_of(stored) if stored is not None else None
        for kind in _NEEDED:
            self._index.take_list(kind, api.list(kind, labels={naming.LABEL_RUN: run_id}))
        self._take_if_served(api, KINDS["JobSet"], labels={naming.LABEL_RUN: run_id})
        self._take_if_served(api, KINDS["Event"])
        any(self._take_if_served(api, kind) for kind in _QUEUES)  # the newest that is served

    def _take_if_served(
        self, api: KubernetesApi, kind: Kind, *, labels: dict[str, str] | None = None
    ) -> bool:
        """Take in a kind that is not needed; False where it is not served or may not be read."""
        try:
            self._index.take_list(kind.name, api.list(kind, labels=labels))
        except ForbiddenError:
            return False
        except KubernetesError as error:
            if error.status != 404:
                raise
            return False
        return True

    def facts(self, run_id: str, attempt: int) -> RunFacts:
        """Return what is seen of one attempt of the run."""
        return self._index.facts(run_id, attempt)

    def record(self, run_id: str) -> RunRecord | None:
        """Return the record, None for another run or where there is none."""
        is_own = self._record is not None and self._record.run_id == run_id
        return self._record if is_own else None


def read_records(api: KubernetesApi) -> list[RunRecord]:
    """Return the records of all runs of a namespace, by run id."""
    stored = api.list("ConfigMap", labels={LABEL_RECORD: "true"})
    found = [record for one in stored if (record := record_of(one)) is not None]
    return sorted(found, key=lambda record: record.run_id)
