"""A run in pods is captured to a bucket by Jobs beside its volume, before it is torn down.

The bucket verifies every signature, and is served at the address of the pods' bridge, where pods
and server reach it. Then the run directory is pruned, and another run starts with its checkpoint.
"""

import ipaddress
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from runtime.control.bucket_store import BucketStore
from runtime.control.captured_source import CapturedSource
from runtime.control.manifest import read_manifest
from runtime.states import RunState
from tests.cluster.planes import CREDIT, END_S, Plane, write_toml
from tests.cluster.run_files import small_demo
from tests.cluster.runs import GPU, Runs, open_runs
from tests.engine.sites import Site
from tests.runtime.control.operating.served import dispatch, serving
from tests.runtime.control.prime.client import prime_program
from tests.runtime.control.reading.s3 import BUCKET, SECRET_KEY, S3Server, serving_s3
from tests.secret_search import files_with_value
from tests.testbed.cluster import Testbed
from tests.testbed.layout import BRIDGE_ADDRESS, POD_SUBNET

pytestmark = pytest.mark.cluster

LARGE, LARGE_BYTES = "large.bin", 65 << 20
"""A file that is worth a Job, as those of a checkpoint are on a real cluster."""

SIGNATURE = "X-Amz-Signature"


@dataclass(kw_only=True)
class Seen:
    """What there was at the moment when a Job sent the large file: the capture was under way."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    stacks: str = ""

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind that are a Job's beside the volume."""
        return [one for one in self.objects if one["kind"] == kind]


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A server whose artifact store is a bucket that pods reach."""

    plane: Plane
    s3: S3Server

    @property
    def lab(self) -> Runs:
        """Return where the pods are."""
        return self.plane.lab

    def look(self, run_id: str) -> Seen:
        """Look at everything now."""
        lab = self.lab
        selector = ("--selector", "paddock.dev/server=volume-task")
        kinds = ("jobs,pods,secrets", "--namespace", lab.namespace, *selector)
        return Seen(
            objects=lab.testbed.get(*kinds)["items"],
            logs=self.plane.logs(run_id),
            held=lab.left(run_id),
            stacks=lab.site.pulumi("stack", "ls").out,
        )


@pytest.fixture(scope="module")
def archive(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """Yield a server with its own home, backend, namespace and bucket, and a user."""
    with (
        serving_s3(BRIDGE_ADDRESS) as s3,
        open_runs(testbed, tmp_path_factory.mktemp("archive")) as opened,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        lab = replace(opened, site=with_bucket(opened.site, s3))
        with serving(lab.site) as served:
            prime = served.client("ada", program=prime_program())
            lab.site.paddock("wallet", "credit", "ada", CREDIT)
            yield Archive(plane=Plane(lab=lab, served=served, prime=prime), s3=s3)


def with_bucket(site: Site, s3: S3Server) -> Site:
    """Return a site whose commands and servers keep what they capture in the bucket."""
    store = {**s3.environment, "PADDOCK_ARTIFACTS": f"s3://{BUCKET}/lab"}
    project = replace(site.project, environment={**site.environment, **store})
    return replace(site, project=project)


def test_a_run_is_archived_by_a_job_pruned_and_started_from(archive: Archive) -> None:
    plane = archive.plane
    toml = write_toml(plane, "first.toml", small_demo(max_steps=4, interval=2))
    first = dispatch(plane.prime, toml, "--gpu-type", GPU)
    seen = until_archived(archive, first)

    assert plane.logs(first) == seen.logs, "the same text before and after"
    assert f"Job {first}" in "".join(seen.held), "captured before anything is destroyed"
    assert first in seen.stacks
    assert archive.lab.left(first) == []
    assert first not in archive.lab.site.pulumi("stack", "ls").out
    a_job_of_the_cluster_sent_it(archive, seen, first)
    the_bucket_holds_the_run(archive, first)

    gone = json.loads(plane.paddock("runs", "prune", "--max-size", "1", "-o", "json").out)
    assert [one["pruned"] for one in gone if one["run"] == first] == [True]
    assert not archive.lab.folder(first).exists()
    assert plane.logs(first) == seen.logs

    toml = write_toml(plane, "second.toml", small_demo(max_steps=6, interval=2))
    second = dispatch(plane.prime, toml, "--gpu-type", GPU, "--resume-from", first)
    plane.until(second, RunState.COMPLETED, timeout_s=END_S)
    assert archive.lab.steps(second) == [5, 6]
    plane.until_torn_down(second)
    assert files_with_value(archive.lab.site.folder, SECRET_KEY) == []
    assert SECRET_KEY not in "".join(plane.served.lines)


def until_archived(archive: Archive, run_id: str) -> Seen:
    """Put a large file into a run's directory, and wait until the run is captured and gone."""
    seen: list[Seen] = []

    def watch(request: str) -> None:
        if request.startswith("PUT") and LARGE in request and not seen:
            seen.append(archive.look(run_id))

    archive.s3.fault = watch
    archive.plane.until(run_id, RunState.RUNNING, timeout_s=END_S)
    (archive.lab.folder(run_id) / LARGE).write_bytes(os.urandom(1 << 20) * (LARGE_BYTES >> 20))
    archive.plane.until(run_id, RunState.COMPLETED, timeout_s=END_S)
    archive.plane.until_torn_down(run_id)
    archive.s3.fault = lambda request: None
    assert seen, archive.plane.words(run_id)
    return seen[0]


def a_job_of_the_cluster_sent_it(archive: Archive, seen: Seen, run_id: str) -> None:
    """See that a pod sent the file with a URL that only its Secret has, and that all is gone."""
    [job], [pod], [secret] = map(seen.of_kind, ("Job", "Pod", "Secret"))
    request = f"PUT /{BUCKET}/lab/{run_id}/files/{LARGE} X-Amz-Algorithm=AWS4-HMAC-SHA256"
    assert ipaddress.ip_address(archive.s3.senders[request]) in ipaddress.ip_network(POD_SUBNET)
    assert archive.s3.senders[request] == pod["status"]["podIP"]
    assert SIGNATURE not in json.dumps([job, pod])
    assert [one["uid"] for one in secret["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    for one in (job, pod, secret):
        assert SECRET_KEY not in json.dumps(one)
    assert archive.look(run_id).objects == []


def the_bucket_holds_the_run(archive: Archive, run_id: str) -> None:
    """Compare every file of the manifest with the run directory, which is still there."""
    store = BucketStore(f"s3://{BUCKET}/lab")
    manifest = read_manifest(store, run_id)
    assert manifest is not None
    assert manifest.is_complete
    assert [one.step for one in manifest.checkpoints if one.is_kept] == [4]
    captured, folder = CapturedSource(store, manifest), archive.lab.folder(run_id)
    for path, file in manifest.files.items():
        assert captured.read(path, 0, file.size) == (folder / path).read_bytes(), path
    paths = set(manifest.files)
    assert {LARGE, "metrics.jsonl", "logs/attempt_1/orchestrator.log"} <= paths
    [part] = manifest.files[LARGE].parts
    assert (part.size, part.num_frames) == (LARGE_BYTES, 0)
    assert not [one for one in paths if "broadcasts" in Path(one).parts]
