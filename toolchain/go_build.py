"""Builds the commands of a pinned Go module, once a machine, into paddock's cache.

A module of ours is a folder with go.mod, go.sum and a Go file; the cache keeps its commands under a
name that holds the digest of these, and a rename puts them in place. Called for the Pulumi engine,
its Kubernetes provider and the programs of the tests' cluster.
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
from dataclasses import dataclass, field
from pathlib import Path

from runtime.errors import SetupError
from toolchain.progress import run_with_progress, say

GO_DIRS = ("/usr/local/go/bin", "/usr/lib/go/bin")  # where Go's archive and Debian put it


@dataclass(frozen=True, kw_only=True, slots=True)
class GoModule:
    """A Go module of ours: what it builds, and the words of its progress and its errors."""

    topic: str
    """Begins each line of progress, and names the folder of the cache."""
    what: str
    """What is built, as it stands in a sentence: `the Pulumi engine`."""
    folder: Path
    version: str
    packages: tuple[str, ...]
    """The commands' import paths; `.` is the module itself."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Go variables that the linker sets, such as a version."""
    num_packages: int
    """About how many packages a build from nothing compiles; only for progress."""
    duration: str
    """How long that takes on two cores, for the reader of the first line."""
    without_go: str
    """What else helps on a machine without Go: `install Pulumi (...)`."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the file names that Go gives to the commands."""
        own = re.search(r"^module (\S+)", self._go_mod(), re.MULTILINE)
        assert own, f"{self.folder}/go.mod names its module"
        paths = [own.group(1) if package == "." else package for package in self.packages]
        return tuple(path.rpartition("/")[2] for path in paths)

    @property
    def go_version(self) -> str:
        """Return the oldest Go that can build the module."""
        wanted = re.search(r"^go (\S+)", self._go_mod(), re.MULTILINE)
        assert wanted, f"{self.folder}/go.mod names its Go"
        return wanted.group(1)

    @property
    def digest(self) -> str:
        """Return the digest of all that the commands are built from."""
        recipe = (platform.machine(), self.packages, sorted(self.variables.items()))
        digest = hashlib.sha256(repr(recipe).encode())
        for path in sorted((*self.folder.glob("go.*"), *self.folder.glob("*.go"))):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
        return digest.hexdigest()[:12]

    def _go_mod(self) -> str:
        return (self.folder / "go.mod").read_text()


def built_folder(module: GoModule, cache_dir: Path) -> Path:
    """Return the folder of the cache that holds the module's commands once they are built."""
    return cache_dir / module.topic / f"{module.version}-{module.digest}"


def is_built(module: GoModule, cache_dir: Path) -> bool:
    """Tell whether the cache holds all commands of a module."""
    folder = built_folder(module, cache_dir)
    return all((folder / command).exists() for command in module.commands)


def build_commands(
    module: GoModule, *, cache_dir: Path, environment: Mapping[str, str], niceness: int = 0
) -> Path:
    """Return the folder of the built commands, building them first if the cache has them not.

    Raises SetupError when there is no Go that can, or the build fails.
    """
    target = built_folder(module, cache_dir)
    if is_built(module, cache_dir):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(module, target):
        if is_built(module, cache_dir):  # another process built it while this one waited
            return target
        go_command = _find_go(module, environment)
        partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
        partial.mkdir()
        say(module.topic, f"{module.what} is built: {module.duration} on 2 cores, once a machine")
        run_with_progress(
            [*_nice(niceness), go_command, *_build_arguments(module, partial)],
            topic=module.topic,
            what=f"building {module.what} {module.version}",
            environment=environment,
            describe=lambda log: _describe_build(log, num_packages=module.num_packages),
        )
        shutil.rmtree(target, ignore_errors=True)  # a build that somebody took files from
        partial.rename(target)
    return target


def parse_go_version(text: str) -> tuple[int, ...]:
    """Return the numbers of `go1.26.8` or `1.26`."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def check_go(*, module: GoModule, found: str, go_toolchain: str) -> None:
    """Raise SetupError when this Go can neither build the module nor fetch a Go that can."""
    if parse_go_version(found) >= parse_go_version(module.go_version):
        return
    if parse_go_version(found) >= (1, 21) and go_toolchain != "local":
        return  # it fetches the wanted toolchain from the module proxy by itself
    raise SetupError(
        f"{module.what} needs Go {module.go_version} or newer, and this is {found}: install a "
        f"newer Go, or {module.without_go}, or let Go fetch the newer one with "
        "`go env -w GOTOOLCHAIN=auto`"
    )


def _build_arguments(module: GoModule, output: Path) -> list[str]:
    flags = ["-s", "-w"]
    for name, value in sorted(module.variables.items()):
        flags += ["-X", f"{name}={value}"]
    output_folder = f"{output}{os.sep}"  # Go names the commands itself in what ends in a slash
    options = ["-v", "-o", output_folder, "-ldflags", " ".join(flags)]
    return ["build", "-C", str(module.folder), *options, *module.packages]


def _nice(niceness: int) -> list[str]:
    return ["nice", "-n", str(niceness)] if niceness else []


def _find_go(module: GoModule, environment: Mapping[str, str]) -> str:
    search_path = os.pathsep.join([environment.get("PATH", ""), *GO_DIRS])
    go_command = shutil.which("go", path=search_path)
    if go_command is None:
        raise SetupError(
            f"there is no Go to build {module.what} with: {module.without_go}, or install Go "
            f"{module.go_version} or newer (go.dev/dl), then try again"
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
    check_go(module=module, found=facts["GOVERSION"], go_toolchain=facts["GOTOOLCHAIN"])
    return go_command


def _describe_build(log: str, *, num_packages: int) -> str:
    lines = log.splitlines()
    num_downloads = sum(line.startswith("go: downloading") for line in lines)
    num_compiled = len(lines) - num_downloads
    if num_compiled == 0:
        return f"{num_downloads} modules downloaded"
    return f"{num_compiled} of about {num_packages} packages compiled"


@contextmanager
def _only_builder(module: GoModule, target: Path) -> Iterator[None]:
    """Hold a file lock; the kernel lets go of it when this process ends in any way."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(module.topic, f"waiting for another process that builds {module.what} ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in target.parent.glob(f"{target.name}.partial-*"):
            shutil.rmtree(leftover)
        yield
