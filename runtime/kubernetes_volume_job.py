"""Tasks on a cluster's run volume, as Jobs in the cluster: uploads, downloads, deletions.

Nobody outside can write to a claim, and a checkpoint of a terabyte must not go through the API
server. The pod is made as the file server's is: its image, its user, its place. A Job and the
Secret with its URLs go by themselves, should nobody be left to remove them.
"""

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from runtime import naming
from runtime.cluster import FilesOffer, KubernetesOffer
from runtime.errors import StackError
from runtime.kubernetes_api import KubernetesApi, KubernetesError, Manifest
from runtime.kubernetes_job_secret import job_secret
from runtime.launch.volume_task import ROOT
from runtime.pod_literals import literal

_PROGRAM = "volume_task.py"
_MAIN = "main"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_COPIED = ("affinity", "imagePullSecrets", "nodeSelector", "securityContext", "tolerations")
_KEEP_S = 600
_LIMIT_S = 6 * 3600
_START_WITHIN_S = 300.0
_POLL_S = 0.5
_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, kw_only=True, slots=True)
class VolumeTask:
    """A task: its words for the program, and the folder of the claim that it sees."""

    words: tuple[str, ...]
    sub_path: str
    is_read_only: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the program that are in a Secret: URLs by which whoever has them may act."""
    check_time: Callable[[], None] = lambda: None
    """Asked while the task goes on; raises, whatever it likes, to have the task ended."""


class VolumeTaskError(StackError):
    """A task on a run volume did not end well."""

    code = "volume_task"


def run_volume_task(api: KubernetesApi, offer: KubernetesOffer, task: VolumeTask) -> dict[str, Any]:
    """Do a task and return what it said; raises VolumeTaskError, and KubernetesError.

    What `task.check_time` raises ends the task, and comes out too.
    """
    name = f"paddock-volume-{secrets.token_hex(6)}"
    job = api.create("Job", volume_job(name, task, offer, like=_files_pod(api, offer)))
    try:
        if task.secrets:
            api.create("Secret", job_secret(job, task.secrets))
        return _outcome(_ended_pod(api, name, task.check_time))
    finally:
        # what cannot be removed now goes with the Job, which goes by itself
        if task.secrets:
            with contextlib.suppress(KubernetesError):
                api.delete("Secret", name)
        with contextlib.suppress(KubernetesError):
            api.delete("Job", name, propagation="Background")


def volume_job(name: str, task: VolumeTask, offer: KubernetesOffer, *, like: Manifest) -> Manifest:
    """Return the Job of a task; `like` is a pod of the file server."""
    program = resources.files("runtime.launch").joinpath(_PROGRAM).read_text("utf-8")
    labels = {naming.LABEL_MANAGED_BY: naming.PROJECT, naming.LABEL_SERVER: "volume-task"}
    spec, container = like["spec"], like["spec"]["containers"][0]
    env_from = [{"secretRef": {"name": name}}] if task.secrets else []
    pod = {
        **{key: spec[key] for key in _COPIED if key in spec},
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [
            {
                "name": _MAIN,
                "image": container["image"],
                "command": ["python3", "-u", "-c", literal(program)],
                "args": [literal(word) for word in task.words],
                "envFrom": env_from,
                "resources": {
                    "requests": {"cpu": "500m", "memory": "64Mi"},
                    "limits": {"memory": "512Mi"},
                },
                "securityContext": container.get("securityContext") or {},
                "volumeMounts": [
                    {
                        "name": "runs",
                        "mountPath": ROOT,
                        "subPath": task.sub_path,
                        "readOnly": task.is_read_only,
                    }
                ],
            }
        ],
        "volumes": [{"name": "runs", "persistentVolumeClaim": {"claimName": offer.run_claim}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _KEEP_S,
            "activeDeadlineSeconds": _LIMIT_S,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _files_pod(api: KubernetesApi, offer: KubernetesOffer) -> Manifest:
    files: FilesOffer | None = offer.files
    pods = api.list("Pod", labels=dict(files.selector)) if files is not None else []
    if not pods:
        raise VolumeTaskError(
            f"no file server runs in namespace {api.namespace}: paddock doctor says what is missing"
        )
    return pods[0]


def _ended_pod(api: KubernetesApi, job: str, check_time: Callable[[], None]) -> Manifest:
    """Return the Job's pod once it has ended; kubelet ends one that takes too long."""
    began = time.monotonic()
    while True:
        check_time()
        pods = api.list("Pod", labels={_JOB_LABEL: job})
        phase = pods[0]["status"].get("phase") if pods else None
        if phase in _OVER:
            return pods[0]
        if phase in {None, "Pending"} and time.monotonic() - began > _START_WITHIN_S:
            raise VolumeTaskError(f"Job {job} has no running pod after {_START_WITHIN_S:g} s")
        time.sleep(_POLL_S)


def _outcome(pod: Manifest) -> dict[str, Any]:
    statuses = pod["status"].get("containerStatuses") or [{}]
    ended = (statuses[0].get("state") or {}).get("terminated") or {}
    said = str(ended.get("message") or "").strip()
    if pod["status"]["phase"] == "Succeeded":
        with contextlib.suppress(ValueError):
            found = json.loads(said)
            if isinstance(found, dict):
                return found
    words = said or ended.get("reason") or pod["status"].get("message") or "no reason is known"
    raise VolumeTaskError(f"a task on the run volume failed: {words}")
