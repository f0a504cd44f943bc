"""The model cache of a Kubernetes cluster: which models are there, and how one is added.

What is in the cache is written into a ConfigMap when it is added, since nobody but a pod can look
into a claim. `add_model` runs the download as a Job in the cluster, beside the cache: the caller's
own machine needs neither the space nor the bandwidth.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from runtime import naming
from runtime.cluster import ClusterProfile
from runtime.errors import NotFoundError, StackError
from runtime.kubernetes_api import KubernetesApi, KubernetesError, Manifest, UnreachableError
from runtime.kubernetes_model_job import MAIN, ModelRequest, job_name, model_job, token_secret

CONFIG_MAP = "paddock-models"
"""ConfigMap that lists the models of the cache."""

_KEY = "models.json"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_POLL_S = 1.0
_START_WITHIN_S = 1800.0
"""From the Job to its first line; an image of 20 GB is pulled within it."""

_BAD_IMAGE_WITHIN_S = 120.0
_BAD_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff"})
_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_PATIENCE_S = 300.0
"""How long the API may be away while a download runs."""

_OVER = frozenset({"Succeeded", "Failed"})

Say = Callable[[str], None]


def cached_models(api: KubernetesApi) -> dict[str, str]:
    """Return the models of the cache with the commit of each, as they were added."""
    found = api.get("ConfigMap", CONFIG_MAP)
    return {name: str(entry.get("commit", "")) for name, entry in _entries(found).items()}


def add_model(
    api: KubernetesApi, profile: ClusterProfile, request: ModelRequest, *, say: Say
) -> str:
    """Download a model into the cluster's cache and enter it; return its commit.

    Raises NotFoundError without a model cache, StackError with the download's own words. The Job
    and its Secret are removed whatever happens.
    """
    offer = profile.kubernetes
    if offer is None or offer.models_claim is None:
        raise NotFoundError(
            f"cluster {profile.name} has no model cache: set paddock:modelsVolumeSize (or "
            f"paddock:modelsVolumeClaim) and `pulumi up -s {profile.name}`"
        )
    job = api.create("Job", model_job(job_name(request.model), request, profile))
    name = job["metadata"]["name"]
    try:
        if request.token is not None:
            api.create("Secret", token_secret(job, request.token))
        commit = _follow(api, name, say)
        enter_model(api, request.model, revision=request.revision, commit=commit)
    finally:
        # what cannot be removed now goes with the Job, which goes by itself
        with contextlib.suppress(UnreachableError):
            if request.token is not None:
                api.delete("Secret", name)
            api.delete("Job", name, propagation="Background")
    return commit


def enter_model(api: KubernetesApi, model: str, *, revision: str | None, commit: str) -> None:
    """Enter a model into the list of the cache; others may do so at the same time."""
    added = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"revision": revision or "main", "commit": commit, "added": added}
    while True:
        found = api.get("ConfigMap", CONFIG_MAP)
        text = json.dumps({**_entries(found), model: entry}, indent=1, sort_keys=True)
        try:
            if found is None:
                api.create("ConfigMap", _config_map(text))
            else:
                api.replace("ConfigMap", {**found, "data": {_KEY: text}})
        except KubernetesError as error:
            if error.is_conflict or error.already_exists:
                continue
            raise
        return


def _entries(config_map: Manifest | None) -> dict[str, dict[str, str]]:
    """Return the entries of the list; raises StackError for one that somebody wrote wrong."""
    text = ((config_map or {}).get("data") or {}).get(_KEY, "{}")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise StackError(
            f"ConfigMap {CONFIG_MAP}: {_KEY} is no JSON object of models; mend it, or delete the "
            "ConfigMap and add the models again: what is in the cache is not downloaded twice"
        )
    return found


def _config_map(text: str) -> Manifest:
    labels = {naming.LABEL_MANAGED_BY: naming.PROJECT}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "labels": labels},
        "data": {_KEY: text},
    }


def _follow(api: KubernetesApi, job: str, say: Say) -> str:
    """Say what the Job's pod prints until it ends; return the commit that it fetched.

    The download goes on while the API is away, so an outage of minutes is waited out.
    """
    name = _started_pod(api, job, say)["metadata"]["name"]
    num_said, answered = 0, time.monotonic()
    while True:
        try:
            for number, line in enumerate(_log_lines(api, name)):
                if number == num_said:  # else said before the connection broke
                    num_said += 1
                    say(line)
            pod = api.get("Pod", name)
        except UnreachableError as error:
            if time.monotonic() - answered > _PATIENCE_S:
                raise
            say(str(error))
            time.sleep(_POLL_S)
            continue
        answered = time.monotonic()
        if pod is None:
            raise StackError(f"pod {name} of the download was deleted: add the model again")
        if pod["status"].get("phase") in _OVER:
            return _commit(pod)
        time.sleep(_POLL_S)


def _log_lines(api: KubernetesApi, pod: str) -> Iterator[str]:
    """Yield the lines of a pod's log until it ends; none where its node has no log of it."""
    rest = b""
    try:
        for piece in api.pod_log(pod, container=MAIN, follow=True):
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line.decode("utf-8", "replace").rstrip() for line in whole)
    except KubernetesError as error:
        if error.status not in {400, 404}:
            raise
    if rest:
        yield rest.decode("utf-8", "replace").rstrip()


def _commit(pod: Manifest) -> str:
    """Return the commit that a download left for kubelet; raises StackError for one that failed."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    ended = (statuses[0].get("state") or {}).get("terminated") or {}
    said = str(ended.get("message") or "").strip()
    if pod["status"]["phase"] == "Succeeded":
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return str(json.loads(said)["commit"])
    words = said or ended.get("reason") or pod["status"].get("message") or "no reason is known"
    code = f" (exit code {ended['exitCode']})" if "exitCode" in ended else ""
    raise StackError(f"the download failed: {words}{code}")


def _started_pod(api: KubernetesApi, job: str, say: Say) -> Manifest:
    """Return the Job's pod once its container started; raises StackError for one that cannot."""
    began, said = time.monotonic(), ""
    while True:
        pods = api.list("Pod", labels={_JOB_LABEL: job})
        if pods and pods[0]["status"].get("phase") not in {None, "Pending"}:
            return pods[0]
        reason, words = waiting_words(pods[0]) if pods else _no_pod(api, job)
        waited = time.monotonic() - began
        is_bad = reason in _BAD_IMAGE and waited > _BAD_IMAGE_WITHIN_S
        if reason in _HOPELESS or is_bad or waited > _START_WITHIN_S:
            raise StackError(f"the download did not start: {words or 'no pod was made'}")
        if words and words != said:
            said = words
            say(words)
        time.sleep(_POLL_S)


def _no_pod(api: KubernetesApi, job: str) -> tuple[str, str]:
    """Return why a Job has no pod, in the words of its newest event."""
    fields = f"involvedObject.kind=Job,involvedObject.name={job}"
    events = [one for one in api.list("Event", fields=fields) if one.get("type") == "Warning"]
    return ("", str(events[-1].get("message", ""))) if events else ("", "")


def waiting_words(pod: Manifest) -> tuple[str, str]:
    """Return (reason, words) of what a pod that has not started waits for."""
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason", ""))
        if reason and reason != "ContainerCreating":
            return reason, f"{reason}: {waiting.get('message', '')}".rstrip(": ")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("reason", "")), f"not placed: {condition.get('message', '')}"
    return "", ""
