"""Builds the Pulumi engine from the Go module proxy, once a machine, into paddock's cache.

Only for machines without an official Pulumi. The build is pinned by toolchain/engine/go.mod and
go.sum, kept under a name that holds their digest, and put in place by a rename.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runtime.errors import SetupError
from toolchain.progress import run_with_progress, say

ENGINE_PACKAGE = "github.com/pulumi/pulumi/pkg/v3"
VERSION_VARIABLE = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"
NUM_PACKAGES = 1700  # about how many packages a build from nothing compiles; only for progress
GO_DIRS = ("/usr/local/go/bin", "/usr/lib/go/bin")  # where Go's archive and Debian put it
TOPIC = "engine"


def build_engine(*, module_dir: Path, cache_dir: Path, environment: Mapping[str, str]) -> Path:
    """Return the path of the built engine, building it first if the cache does not hold it."""
    version = engine_version(module_dir)
    target = cache_dir / "engine" / f"{version}-{_digest(module_dir)}" / "pulumi"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(target.parent / ".lock"):
        if target.exists():  # another setup built it while this one waited
            return target
        go_command = _find_go(module_dir=module_dir, environment=environment)
        partial = target.with_name(f"pulumi.partial-{os.getpid()}")
        flags = f"-s -w -X {VERSION_VARIABLE}={version}"
        say(TOPIC, "no Pulumi on PATH, so one is built: 4 to 8 minutes on 2 cores, once a machine")
        run_with_progress(
            [
                go_command,
                "build",
                "-C",
                module_dir,
                "-v",
                "-o",
                partial,
                "-ldflags",
                flags,
                f"{ENGINE_PACKAGE}/cmd/pulumi",
            ],
            topic=TOPIC,
            what=f"building the Pulumi engine {version}",
            environment=environment,
            describe=_describe_build,
        )
        partial.rename(target)
    return target


def engine_version(module_dir: Path) -> str:
    """Return the engine's version as go.mod pins it: `v3.274.1`."""
    found = re.search(rf"{re.escape(ENGINE_PACKAGE)} (v\S+)", (module_dir / "go.mod").read_text())
    assert found, "toolchain/engine/go.mod pins the engine"
    return found.group(1)


def parse_go_version(text: str) -> tuple[int, ...]:
    """Return the numbers of `go1.26.8` or `1.26`."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def check_go(*, found: str, go_toolchain: str, wanted: str) -> None:
    """Raise SetupError when this Go can neither build the engine nor fetch a Go that can."""
    if parse_go_version(found) >= parse_go_version(wanted):
        return
    if parse_go_version(found) >= (1, 21) and go_toolchain != "local":
        return  # it fetches the wanted toolchain from the module proxy by itself
    raise SetupError(
        f"the Pulumi engine needs Go {wanted} or newer, and this is {found}: install a newer Go, "
        "or install Pulumi itself, or let Go fetch the newer one with `go env -w GOTOOLCHAIN=auto`"
    )


def _find_go(*, module_dir: Path, environment: Mapping[str, str]) -> str:
    search_path = os.pathsep.join([environment.get("PATH", ""), *GO_DIRS])
    go_command = shutil.which("go", path=search_path)
    wanted = re.search(r"^go (\S+)", (module_dir / "go.mod").read_text(), re.MULTILINE)
    assert wanted, "toolchain/engine/go.mod names its Go"
    if go_command is None:
        raise SetupError(
            "there is no Pulumi on PATH, and no Go to build one with: install Pulumi "
            f"(pulumi.com/docs/install) or Go {wanted.group(1)} or newer (go.dev/dl), then run "
            "`make setup` again"
        )
    output = subprocess.run(
        [go_command, "env", "-json", "GOVERSION", "GOTOOLCHAIN"],
        cwd="/",  # outside the module, so that Go says its own version and fetches nothing
        env=dict(environment),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    facts = json.loads(output)
    check_go(found=facts["GOVERSION"], go_toolchain=facts["GOTOOLCHAIN"], wanted=wanted.group(1))
    return go_command


def _digest(module_dir: Path) -> str:
    digest = hashlib.sha256(platform.machine().encode())
    for name in ("go.mod", "go.sum"):
        digest.update((module_dir / name).read_bytes())
    return digest.hexdigest()[:12]


def _describe_build(log: str) -> str:
    lines = log.splitlines()
    num_downloads = sum(line.startswith("go: downloading") for line in lines)
    num_packages = len(lines) - num_downloads
    if num_packages == 0:
        return f"{num_downloads} modules downloaded"
    return f"{num_packages} of about {NUM_PACKAGES} packages compiled"


@contextmanager
def _only_builder(lock_path: Path) -> Iterator[None]:
    """Hold a file lock; the kernel lets go of it when this process ends in any way."""
    with lock_path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(TOPIC, "waiting for another setup that is building the engine ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in lock_path.parent.glob("pulumi.partial-*"):
            leftover.unlink()
        yield
