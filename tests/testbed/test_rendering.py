"""What the testbed writes before anything runs: image, configuration, nodes of kwok."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.testbed import image, kwok, layout, programs
from tests.testbed.configuration import render_kubeconfig, render_tokens
from tests.testbed.image import add_mounts, prime_rl_image


def layer_of(archive: bytes) -> tarfile.TarFile:
    with tarfile.open(fileobj=io.BytesIO(archive)) as outer:
        blobs = {name: outer.extractfile(name) for name in outer.getnames()}
        contents = {name: blob.read() for name, blob in blobs.items() if blob is not None}
    index = json.loads(contents["index.json"])
    manifest = json.loads(contents[blob_name(index["manifests"][0]["digest"])])
    layer = contents[blob_name(manifest["layers"][0]["digest"])]
    return tarfile.open(fileobj=io.BytesIO(layer))


def blob_name(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def test_the_same_folder_makes_the_same_image() -> None:
    assert prime_rl_image().digest == prime_rl_image().digest


def test_another_folder_makes_another_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = prime_rl_image().digest
    command = tmp_path / "image" / "bin" / "trainer"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setattr(layout, "SOURCES", tmp_path)

    made = prime_rl_image()

    assert made.digest != before
    layer = layer_of(made.archive)
    assert layer.getmember("app/bin/trainer").mode == 0o755
    assert layer.getmember("app/.venv/bin").linkname == "../bin"
    assert layer.getmember("tmp").mode == 0o1777


def test_containers_see_the_checkout_and_its_python_read_only() -> None:
    folders = image.mounted_folders()
    spec = add_mounts({"mounts": [], "process": {"rlimits": [], "cwd": "/"}}, folders)

    assert "/usr" in folders
    assert str(layout.CHECKOUT) in folders
    assert spec["process"] == {"cwd": "/"}
    assert all("ro" in mount["options"] for mount in spec["mounts"])


def test_a_user_without_groups_has_no_field_for_them() -> None:
    tokens = render_tokens({"admin": "a", "system:kube-scheduler": "b"})

    assert (
        tokens == 'a,admin,admin,"system:masters"\nb,system:kube-scheduler,system:kube-scheduler\n'
    )


def test_a_kubeconfig_trusts_the_testbeds_authority_alone() -> None:
    document = json.loads(render_kubeconfig(user="admin", token="t", authority=b"pem"))

    assert document["current-context"] == "testbed"
    assert document["clusters"][0]["cluster"]["certificate-authority-data"] == "cGVt"


def test_a_kwok_node_has_the_shape_asked_for() -> None:
    shape = kwok.Shape(gpus=4, gpu_product="NVIDIA-B200", resources={"rdma/ib": "8"})

    node = kwok.node_manifest(shape)

    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-B200"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["status"]["allocatable"]["rdma/ib"] == "8"
    assert node["spec"]["taints"] == [kwok.TAINT]


def test_each_program_is_pinned_by_its_module() -> None:
    for module in programs.go_modules():
        text = (module.folder / "go.mod").read_text()
        assert f" {module.version}\n" in text, module.topic
