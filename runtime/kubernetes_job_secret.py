"""The Secret of one Job beside the runs: owned by it, so that it goes when the Job goes. Pure."""

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]  # Any: a Kubernetes object


def job_secret(job: Manifest, values: Mapping[str, str]) -> Manifest:
    """Return the Secret with these values, owned by a Job that was created and named as it."""
    metadata = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"]}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": metadata["name"],
            "labels": metadata.get("labels", {}),
            "ownerReferences": [{**owner, "uid": metadata["uid"]}],
        },
        "stringData": dict(values),
    }
