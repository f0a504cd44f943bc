"""What RunSpec does on Kubernetes: opens an attempt, resolves its image, ends it, destroys the run.

The rules that hold on every target are in `runtime.run_rules`, which calls this module. Everything
here works from RunSpec's inputs alone and may be repeated. An API server that is away is waited
for; what that cannot cure ends as teardown=unreachable, and a later destroy takes it up again.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from runtime import homes
from runtime.cluster import KubernetesConnection
from runtime.errors import PaddockError, RunStateError
from runtime.image import ResolvedImage, pull_logins, resolve_image, tagged_image
from runtime.kept_connections import kept_api
from runtime.kubernetes_api import ForbiddenError, KubernetesApi, KubernetesError, UnreachableError
from runtime.kubernetes_record import ClusterRecord
from runtime.kubernetes_teardown import (
    SLACK_S,
    WORKLOADS,
    Owned,
    TeardownStuckError,
    end_workloads,
    remove_rest,
)
from runtime.run_record import RunRecord, check_begin, check_open
from runtime.states import RunState, Teardown

Inputs = Mapping[str, Any]  # Any: property values of the resource
_T = TypeVar("_T")

DESTROYED = "destroyed while live"
"""The reason of a run whose stack was destroyed before its end."""

PATIENCE_S = 600.0
"""How long an API server may be away in the middle of a teardown; PATIENCE_VARIABLE sets it."""

PATIENCE_VARIABLE = "PADDOCK_API_PATIENCE_S"
SLACK_VARIABLE = "PADDOCK_TEARDOWN_SLACK_S"
"""Sets how long beyond their grace period pods may take to go before a destroy names them."""

_PAUSE_S = 2.0
_NEW_OUTAGE_S = 60.0
"""Work that went on for so long before it failed shows that an earlier outage was over."""


class TeardownUnreachableError(PaddockError):
    """The cluster cannot be reached to end a run; nothing is lost, a later destroy goes on."""

    code = "teardown_unreachable"


def connect(inputs: Inputs) -> KubernetesApi:
    """Return the API of the cluster and namespace that the run is placed in."""
    return kept_api(
        KubernetesConnection(context=str(inputs["context"]), namespace=str(inputs["namespace"]))
    )


def current_record(inputs: Inputs) -> RunRecord | None:
    """Return the run's record."""
    return ClusterRecord(connect(inputs), str(inputs["runId"])).read()


def check_attempt(inputs: Inputs, _record: RunRecord | None) -> None:
    """Raise a PaddockError when this attempt may not begin, or has no namespace to begin in."""
    check_namespace(connect(inputs), cluster=str(inputs["cluster"]))
    if _record is not None:
        digest = str(inputs["configDigest"])
        check_begin(_record, int(inputs["attempt"]), config_digest=digest)


def check_namespace(api: KubernetesApi, *, cluster: str) -> None:
    """Raise RunStateError where the namespace is missing or on its way out."""
    try:
        found = api.get("Namespace", api.namespace)
    except ForbiddenError:
        return  # a namespace's own objects may be all that the caller is allowed to see
    if found is None:
        raise RunStateError(
            f"namespace {api.namespace} does not exist on cluster {cluster}: "
            f"`pulumi up -s {cluster}` makes it"
        )
    if (found.get("status") or {}).get("phase") == "Terminating":
        raise RunStateError(
            f"namespace {api.namespace} of cluster {cluster} is Terminating and takes no new "
            "object: wait until it has gone, or see its status for what holds it"
        )


def place_attempt(inputs: Inputs) -> dict[str, str]:
    """Open the attempt's record as QUEUED and return the image that all its pods run.

    No capacity is asked for: the cluster's scheduler queues.
    """
    api = connect(inputs)
    check_namespace(api, cluster=str(inputs["cluster"]))
    record = ClusterRecord(api, str(inputs["runId"]))
    record.begin_attempt(config_digest=str(inputs["configDigest"]), attempt=int(inputs["attempt"]))
    image = _image(api, record, inputs)
    if (now := record.read()) is not None:  # a registry may take as long as a stop
        check_open(now, int(inputs["attempt"]))
    return {"image": image.image, "notice": image.notice}


def end_attempt(inputs: Inputs, *, reason: str) -> None:
    """End the workloads of this attempt and of earlier ones, and write how the attempt ended."""
    attempt = int(inputs["attempt"])
    owned = Owned(run_id=str(inputs["runId"]), up_to_attempt=attempt)
    api = connect(inputs)
    _patiently(lambda: stop_workloads(api, owned, attempt, reason=reason))


def stop_workloads(api: KubernetesApi, owned: Owned, attempt: int, *, reason: str) -> None:
    """End the workloads; STOPPED is written once none is left, how the run ended by itself before.

    An `up` that goes on beside it finds STOPPED, and what it made until then goes by a last look.
    A run without a record gets one at this attempt, so that it does not start again. Raises
    TeardownStuckError, which leaves the record as it is.
    """
    record = ClusterRecord(api, owned.run_id)
    _settle(api, owned.run_id)
    end_workloads(api, owned)
    _write_stopped(record, owned, attempt, reason=reason)
    if owned.find(api, WORKLOADS):
        end_workloads(api, owned)


def destroy_run(inputs: Inputs) -> None:
    """End everything that the run owns, for good; the namespace, claims and the record stay.

    Raises TeardownStuckError or TeardownUnreachableError; a later destroy goes on from there.
    """
    run_id = str(inputs["runId"])
    made = frozenset(str(kind) for kind in inputs.get("kinds") or ())
    slack_s = float(os.environ.get(SLACK_VARIABLE) or SLACK_S)
    owned = Owned(run_id=run_id, made=made, slack_s=slack_s)
    note = homes.home_path() / "unreachable" / f"{run_id}.json"
    api = connect(inputs)
    try:
        _patiently(lambda: _destroy(api, owned, int(inputs["attempt"])))
    except UnreachableError as error:
        _note_unreachable(note, inputs, error)
        raise TeardownUnreachableError(
            f"{run_id}: the cluster cannot be reached to end the run, which may hold GPUs "
            f"(teardown=unreachable, noted in {note}): {error}. Destroy the run again once "
            "the cluster answers"
        ) from None
    note.unlink(missing_ok=True)


def _destroy(api: KubernetesApi, owned: Owned, attempt: int) -> None:
    record = ClusterRecord(api, owned.run_id)
    _set_teardown(record, Teardown.RUNNING)
    try:
        stop_workloads(api, owned, attempt, reason=DESTROYED)
        remove_rest(api, owned)
    except TeardownStuckError:
        _set_teardown(record, Teardown.STUCK)
        raise
    _set_teardown(record, Teardown.DONE)


def _image(api: KubernetesApi, record: ClusterRecord, inputs: Inputs) -> ResolvedImage:
    """Return the image of an earlier attempt of the same tag, else ask the registry."""
    repository, tag = str(inputs["imageRepository"]), str(inputs["imageTag"])
    tagged = tagged_image(repository, tag)
    kept = record.image(tagged)
    if kept is not None:
        return ResolvedImage(image=kept)
    secrets = []
    for name in inputs.get("imagePullSecrets") or ():
        with contextlib.suppress(ForbiddenError):  # then the registry is asked without a login
            secrets += [found] if (found := api.get("Secret", str(name))) else []
    resolved = resolve_image(repository, tag, pull_logins(secrets))
    if "@" in resolved.image:
        record.keep_image(tagged, resolved.image)
    return resolved


def _settle(api: KubernetesApi, run_id: str) -> None:
    """Write how the run ended by itself, before its pods, which say so, are gone.

    What cannot be read costs a reason, not the teardown.
    """
    from runtime.observe.kubernetes.look import Look  # late: an `up` does without
    from runtime.observe.kubernetes.observer import RunObserver
    from runtime.observe.kubernetes.run_files import RunFiles

    with _tolerant():
        RunObserver(api, Look(api, run_id), RunFiles(api)).settle(run_id)


def _write_stopped(record: ClusterRecord, owned: Owned, attempt: int, *, reason: str) -> None:
    """Write STOPPED for a run that was live; no teardown fails for want of a record."""
    with _tolerant():
        before = record.read() or record.begin_attempt(config_digest="", attempt=attempt)
        is_later = owned.up_to_attempt is not None and before.attempt > owned.up_to_attempt
        if not before.is_over and not is_later:
            record.advance(RunState.STOPPED, attempt=before.attempt, reason=reason)


def _set_teardown(record: ClusterRecord, teardown: Teardown) -> None:
    with _tolerant():
        before = record.read()
        if before is not None and before.teardown is not teardown:
            record.set_aftermath(attempt=before.attempt, teardown=teardown)


@contextlib.contextmanager
def _tolerant() -> Iterator[None]:
    """Let a teardown go on without its record, but not without the API."""
    try:
        yield
    except UnreachableError:
        raise
    except (KubernetesError, RunStateError):
        return


def _patiently(act: Callable[[], _T]) -> _T:
    """Do what may be repeated until the API server has been away for longer than its patience."""
    patience_s = float(os.environ.get(PATIENCE_VARIABLE) or PATIENCE_S)
    away_since: float | None = None
    while True:
        began = time.monotonic()
        try:
            return act()
        except UnreachableError:
            now = time.monotonic()
            if away_since is None or now - began > _NEW_OUTAGE_S:
                away_since = now
            if now - away_since >= patience_s:
                raise
            time.sleep(min(_PAUSE_S, patience_s))


def _note_unreachable(path: Path, inputs: Inputs, error: PaddockError) -> None:
    """Keep that a run may still hold something where no record can be written."""
    homes.make_home()
    path.parent.mkdir(exist_ok=True)
    facts = {key: str(inputs[key]) for key in ("runId", "cluster", "context", "namespace")}
    facts |= {"teardown": str(Teardown.UNREACHABLE), "error": str(error)}
    path.write_text(json.dumps({**facts, "time": datetime.now(UTC).isoformat()}, indent=2))
