"""The testbed's storage: folders of this machine as volumes, of two storage classes; pure.

Volumes are retained, so one that was claimed is not used again; a test that needs a certain number
makes its own with `Testbed.add_volume`.
"""

import uuid
from typing import Any

from tests.testbed.layout import VOLUMES

SHARED = "testbed-rwx"
LATE = "testbed-late"  # binds a claim when its first pod is scheduled
NUM_SHARED = 40
NUM_LATE = 8
SIZE = "1Ti"


def storage_manifests() -> list[dict[str, Any]]:
    """Return the storage classes and the volumes that a testbed begins with."""
    modes = {SHARED: "Immediate", LATE: "WaitForFirstConsumer"}
    classes = [_storage_class(name, mode) for name, mode in modes.items()]
    shared = [volume_manifest(SHARED) for _ in range(NUM_SHARED)]
    late = [volume_manifest(LATE) for _ in range(NUM_LATE)]
    return [*classes, *shared, *late]


def volume_manifest(storage_class: str) -> dict[str, Any]:
    """Return a volume whose folder anybody may write to; the kubelet makes none such."""
    name = f"{storage_class}-{uuid.uuid4().hex[:8]}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(VOLUMES / name), "type": "Directory"},
        },
    }


def make_folder(volume: dict[str, Any]) -> None:
    """Make the folder of a volume."""
    folder = VOLUMES / volume["metadata"]["name"]
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def _storage_class(name: str, mode: str) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
        "reclaimPolicy": "Retain",
    }
