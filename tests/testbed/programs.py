"""The testbed's programs: five pinned Go modules, and Debian's packages."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SetupError
from tests.testbed.layout import CNI_PLUGINS, SOURCES, cache_dir
from toolchain.go_build import GoModule, build_commands, is_built
from toolchain.progress import run_with_progress

KUBERNETES_VERSION = "v1.37.2"
WITHOUT_GO = "leave the cluster stages out with PADDOCK_SKIP=testbed,cluster"
# Debian's package, and a file by which to tell that it is there.
PACKAGES = {
    "runc": "/usr/sbin/runc",
    "containernetworking-plugins": str(CNI_PLUGINS / "bridge"),
    "iptables": "/usr/sbin/iptables",
    "iproute2": "/usr/sbin/ip",
    "conntrack": "/usr/sbin/conntrack",
    "busybox-static": "/bin/busybox",
    "openssl": "/usr/bin/openssl",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """The folders of the built commands."""

    etcd: Path
    kubernetes: Path
    containerd: Path
    coredns: Path
    kwok: Path

    @property
    def fingerprint(self) -> str:
        """Return what differs when one of them was built from other sources."""
        return " ".join(folder.name for folder in self.folders)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return all folders."""
        return self.etcd, self.kubernetes, self.containerd, self.coredns, self.kwok

    def find(self, command: str) -> str:
        """Return the path of a command."""
        for folder in self.folders:
            if (folder / command).exists():
                return str(folder / command)
        raise SetupError(f"the testbed has no {command}: run `python -m tests.testbed build`")


def go_modules() -> tuple[GoModule, ...]:
    """Return the modules, as many as their dependencies' versions force."""
    commands = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
    commands += ("kubectl", "kube-proxy")
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    version_package = "k8s.io/component-base/version"
    containerd = "github.com/containerd/containerd/v2/cmd"
    return (
        _module("etcd", version="v3.7.3", packages=(".",), num_packages=450),
        _module(
            "kubernetes",
            version=KUBERNETES_VERSION,
            packages=tuple(f"k8s.io/kubernetes/cmd/{command}" for command in commands),
            num_packages=2150,
            variables={
                f"{version_package}.gitVersion": KUBERNETES_VERSION,  # else clients see v0.0.0
                f"{version_package}.gitMajor": major,
                f"{version_package}.gitMinor": minor,
            },
        ),
        _module(
            "containerd",
            version="v2.4.2",
            packages=tuple(
                f"{containerd}/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")
            ),
            num_packages=700,
        ),
        _module(
            "coredns",
            version="v1.15.0",
            packages=("github.com/coredns/coredns",),
            num_packages=1100,
        ),
        _module(
            "kwok", version="v0.8.0", packages=("sigs.k8s.io/kwok/cmd/kwok",), num_packages=600
        ),
    )


def build_programs(*, niceness: int = 0) -> Programs:
    """Return the programs, building those that the cache has not."""
    folders = [
        build_commands(
            module, cache_dir=cache_dir() / "testbed", environment=os.environ, niceness=niceness
        )
        for module in go_modules()
    ]
    return Programs(
        **{module.topic: path for module, path in zip(go_modules(), folders, strict=True)}
    )


def are_built() -> bool:
    """Tell whether nothing is left to build."""
    return all(is_built(module, cache_dir() / "testbed") for module in go_modules())


def missing_packages() -> list[str]:
    """Return Debian's packages that this machine lacks."""
    return [package for package, file in PACKAGES.items() if not Path(file).exists()]


def install_packages() -> None:
    """Install what is missing of Debian's packages; raise SetupError where that cannot be done."""
    missing = missing_packages()
    if not missing:
        return
    by_hand = f"apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        raise SetupError(f"the testbed needs root, to run containers and to `{by_hand}`")
    if not Path("/usr/bin/apt-get").exists():
        raise SetupError(f"the testbed needs what Debian has as {', '.join(missing)}: install it")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run_apt("update", what="reading Debian's package lists", environment=environment)
    options = ["--yes", "--no-install-recommends", "--option", "DPkg::Lock::Timeout=300"]
    _run_apt(
        "install", *options, *missing, what=f"installing {by_hand[16:]}", environment=environment
    )
    if still := missing_packages():
        raise SetupError(f"apt-get installed {', '.join(missing)}, but not {', '.join(still)}")


def _run_apt(*arguments: str, what: str, environment: Mapping[str, str]) -> None:
    command = ["apt-get", "--quiet", *arguments]
    run_with_progress(command, topic="testbed", what=what, environment=environment)


def _module(
    name: str,
    *,
    version: str,
    packages: tuple[str, ...],
    num_packages: int,
    variables: Mapping[str, str] | None = None,
) -> GoModule:
    return GoModule(
        topic=name,
        what=f"the testbed's {name}",
        folder=SOURCES / "go" / name,
        version=version,
        packages=packages,
        variables=variables or {},
        num_packages=num_packages,
        duration="1 to 8 minutes",
        without_go=WITHOUT_GO,
    )
