"""The store of RunRecords on Kubernetes: one ConfigMap a run, which no stack owns.

Every write is a compare-and-set by the object's resourceVersion, so that any number of observers
may write. Beside the record lies the image that the run's tag was resolved to. The record itself,
and which change may be made to it, is `runtime.run_record`.
"""

import json
import time
from collections.abc import Callable

from runtime import naming
from runtime.errors import RunStateError
from runtime.kubernetes_api import KubernetesApi, KubernetesError, Manifest, UnreachableError
from runtime.pod_names import LABEL_RECORD, record_name
from runtime.run_record import (
    ExitDetails,
    RecordConflictError,
    RunRecord,
    advanced,
    begun,
    parse_record,
    preempted,
    with_aftermath,
    with_reason,
    with_warning,
)
from runtime.states import Capture, RunState, Teardown

RECORD_KEY = "record.json"
IMAGE_KEY = "image.json"

_TRIES = 20
"""Writers that may come in between; each of them has moved the record on."""

_PAUSE_S = 0.05


class ClusterRecord:
    """The record of one run on a cluster; methods as the functions of `runtime.record`."""

    def __init__(self, api: KubernetesApi, run_id: str) -> None:
        """Keep the record in the API's namespace."""
        self._api = api
        self.run_id = run_id
        self.name = record_name(run_id)

    def read(self) -> RunRecord | None:
        """Return the record, None where there is none; raises RunStateError when damaged."""
        return self._parse(self._api.get("ConfigMap", self.name))

    def begin_attempt(
        self, *, config_digest: str, attempt: int, preempted: bool = False
    ) -> RunRecord:
        """Write QUEUED for a new attempt, as `begun` says."""
        return self._change(
            lambda before: begun(
                before,
                run_id=self.run_id,
                config_digest=config_digest,
                attempt=attempt,
                preempted=preempted,
            )
        )

    def advance(
        self,
        state: RunState,
        *,
        attempt: int,
        reason: str = "",
        exit_details: ExitDetails | None = None,
    ) -> RunRecord:
        """Write one transition of an attempt, as `advanced` says, and return the record."""
        return self._change(
            lambda before: advanced(
                before, state, attempt=attempt, reason=reason, exit_details=exit_details
            )
        )

    def set_aftermath(
        self,
        *,
        attempt: int,
        teardown: Teardown | None = None,
        capture: Capture | None = None,
        expected_version: int | None = None,
    ) -> RunRecord:
        """Write what became of the run's resources or artifacts, as `with_aftermath` says."""
        return self._change(
            lambda before: with_aftermath(
                before,
                attempt=attempt,
                teardown=teardown,
                capture=capture,
                expected_version=expected_version,
            )
        )

    def add_warning(self, warning: str, *, attempt: int) -> RunRecord:
        """Write a warning about an attempt that goes on."""
        return self._change(lambda before: with_warning(before, warning, attempt=attempt))

    def set_reason(self, reason: str, *, attempt: int) -> RunRecord:
        """Write what the state of a live attempt waits for now."""
        return self._change(lambda before: with_reason(before, reason, attempt=attempt))

    def preempt(self, reason: str, *, attempt: int) -> RunRecord:
        """Write that a live attempt lost its place, as `preempted` says: QUEUED as the next one."""
        return self._change(lambda before: preempted(before, reason, attempt=attempt))

    def image(self, tagged: str) -> str | None:
        """Return what this image with its tag was resolved to when the run was dispatched."""
        stored = self._api.get("ConfigMap", self.name)
        text = ((stored or {}).get("data") or {}).get(IMAGE_KEY)
        return json.loads(text).get(tagged) if text else None

    def keep_image(self, tagged: str, image: str) -> None:
        """Keep what an image's tag was resolved to, for later attempts."""
        self._api.patch("ConfigMap", self.name, {"data": {IMAGE_KEY: json.dumps({tagged: image})}})

    def _change(self, make: Callable[[RunRecord | None], RunRecord]) -> RunRecord:
        for _ in range(_TRIES):
            stored = self._api.get("ConfigMap", self.name)
            before = self._parse(stored)
            after = make(before)
            if after is before:
                return after
            try:
                self._write(stored, after)
            except UnreachableError:
                raise
            except KubernetesError as error:
                if not (error.is_conflict or error.already_exists):
                    raise
                time.sleep(_PAUSE_S)
                continue
            return after
        raise RecordConflictError(f"{self.run_id}: the record changes all the time: try again")

    def _write(self, stored: Manifest | None, record: RunRecord) -> None:
        text = record.model_dump_json(indent=2)
        if stored is None:
            self._api.create("ConfigMap", record_manifest(self.run_id, {RECORD_KEY: text}))
            return
        self._api.replace("ConfigMap", {**stored, "data": {**stored["data"], RECORD_KEY: text}})

    def _parse(self, stored: Manifest | None) -> RunRecord | None:
        if stored is None:
            return None
        record = record_of(stored)
        if record is None:
            raise RunStateError(
                f"ConfigMap {self.name} holds no {RECORD_KEY}: delete it to give up the history"
            )
        return record


def record_of(config_map: Manifest) -> RunRecord | None:
    """Return the record in a ConfigMap, None where it has none; raises RunStateError."""
    text = (config_map.get("data") or {}).get(RECORD_KEY)
    if text is None:
        return None
    return parse_record(text, source=f"ConfigMap {config_map['metadata']['name']}")


def record_manifest(run_id: str, data: dict[str, str]) -> Manifest:
    """Return the ConfigMap of a record; it carries no attempt, so no sweep takes it along."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": record_name(run_id),
            "labels": {LABEL_RECORD: "true", naming.LABEL_RUN: run_id},
        },
        "data": data,
    }
