"""Makes the image of the pods: a tiny archive; the machine's own Python is mounted into it.

The folder `image/` becomes /app, and its `bin` is /app/.venv/bin too, where prime-rl's image has
its commands. The image carries prime-rl's name, so that a pod template of production runs it.
"""

import hashlib
import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed import layout
from tests.testbed.configuration import PAUSE_IMAGE

PRIME_RL_IMAGE = "docker.io/primeintellect/prime-rl:main"
PAUSE_COMMAND = ("/busybox", "sleep", "2147483647")
USER = "1000:1000"  # as in prime-rl's image
HOME = "home/appuser"
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib64")  # links into /usr on most machines
ETC = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nappuser:x:1000:1000::/home/appuser:/bin/sh\n",
    "etc/group": "root:x:0:\nappuser:x:1000:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
MOUNTED_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An OCI archive and the digest of all that it was made from."""

    name: str
    archive: bytes
    digest: str


def pause_image() -> Image:
    """Return the image that holds a pod's namespaces."""
    layer = _layer(files={"busybox": (Path("/bin/busybox").read_bytes(), 0o755)}, links={})
    return _image(PAUSE_IMAGE, layer=layer, config={"Cmd": list(PAUSE_COMMAND)})


def prime_rl_image() -> Image:
    """Return the image of the run's pods."""
    python = f'#!/bin/sh\nexec {layout.VENV}/bin/python "$@"\n'.encode()
    files = {name: (text.encode(), 0o644) for name, text in ETC.items()}
    files |= {f"app/bin/{name}": (python, 0o755) for name in ("python", "python3")}
    files |= _tree(layout.SOURCES / "image")
    links = {name: str(Path("/", name).readlink()) for name in SYSTEM_FOLDERS if _is_link(name)}
    links["app/.venv/bin"] = "../bin"
    environment = {
        "PATH": "/app/.venv/bin:/usr/local/bin:/usr/bin:/bin",
        "PADDOCK_TESTBED_PYTHON": f"{layout.VENV}/bin/python",
        "PADDOCK_TESTBED_CHECKOUT": str(layout.CHECKOUT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    config = {
        "User": USER,
        "WorkingDir": "/app",
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Cmd": ["sleep", "infinity"],
    }
    return _image(PRIME_RL_IMAGE, layer=_layer(files=files, links=links), config=config)


def mounted_folders() -> tuple[str, ...]:
    """Return what of this machine every container has, read-only, at the same path."""
    own = [folder for name in SYSTEM_FOLDERS if (folder := Path("/", name)).is_dir()]
    system = ["/usr", *(str(folder) for folder in own if not folder.is_symlink())]
    interpreter = Path(os.path.realpath(layout.VENV / "bin" / "python"))
    prefixes = (sys.base_prefix, os.path.realpath(sys.base_prefix))
    pythons = {*prefixes, str(interpreter.parent.parent)}
    outside_usr = sorted(path for path in pythons if not path.startswith("/usr"))
    etc = [path for path in MOUNTED_ETC if Path(path).exists()]
    return (*system, *etc, *outside_usr, str(layout.CHECKOUT))


def add_mounts(spec: Mapping[str, object], folders: Sequence[str]) -> dict[str, Any]:
    """Return a runtime specification with read-only folders of this machine, and no limits."""
    mounts = spec["mounts"]
    process = spec["process"]
    assert isinstance(mounts, list)
    assert isinstance(process, dict)
    options = ["rbind", "ro", "nosuid", "nodev"]
    added = [
        {"destination": folder, "type": "bind", "source": folder, "options": options}
        for folder in folders
    ]
    # Its limit of 1024 open files is below what an engine needs.
    unlimited = {key: value for key, value in process.items() if key != "rlimits"}
    return {**spec, "mounts": [*mounts, *added], "process": unlimited}


def _is_link(name: str) -> bool:
    return Path("/", name).is_symlink()


def _tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files of a folder under /app."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            mode = 0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644
            found[f"app/{path.relative_to(folder)}"] = (path.read_bytes(), mode)
    return found


def _layer(*, files: Mapping[str, tuple[bytes, int]], links: Mapping[str, str]) -> bytes:
    """Return a tar archive that is the same for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("tmp", "proc", "sys", "dev", "data", HOME, *_parents((*files, *links))):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if name == "tmp" else 0o755
            if name == HOME:
                entry.uid = entry.gid = 1000
            archive.addfile(entry)
        for name, target in sorted(links.items()):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.SYMTYPE
            entry.linkname = target
            archive.addfile(entry)
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _parents(names: Sequence[str]) -> list[str]:
    found = {str(parent) for name in names for parent in Path(name).parents}
    return sorted(found - {"."})


def _image(name: str, *, layer: bytes, config: Mapping[str, object]) -> Image:
    rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
    machine = ARCHITECTURES[platform.machine()]
    document = {"architecture": machine, "os": "linux", "config": config, "rootfs": rootfs}
    config_blob = json.dumps(document).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "config": _descriptor("config.v1+json", config_blob),
        "layers": [_descriptor("layer.v1.tar", layer)],
    }
    manifest_blob = json.dumps(manifest).encode()
    entry = _descriptor("manifest.v1+json", manifest_blob)
    entry["annotations"] = {"io.containerd.image.name": name}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
    for blob in (layer, config_blob, manifest_blob):
        files[f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}"] = blob
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return Image(name=name, archive=buffer.getvalue(), digest=_digest(manifest_blob))


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": f"{MEDIA}.{kind}", "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
