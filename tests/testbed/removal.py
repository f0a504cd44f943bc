"""Removes all that a testbed left on this machine: processes, mounts, network, data."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from runtime.errors import SetupError
from runtime.processes import ProcessId, end_processes, identify
from tests.testbed import layout
from tests.testbed.daemons import kill_daemon, known_daemons, stop_daemon
from tests.testbed.node import API_RULE, CONTAINERD, KUBELET, PROXY, release_hugepages
from tests.testbed.programs import Programs

CGROUPS = Path("/sys/fs/cgroup")
KUBELET_CHAINS = ("KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT")
RUNTIME_NAMESPACE = "k8s.io"  # the kubelet's, in containerd's cgroups


def remove_all(programs: Programs | None) -> None:
    """Remove everything; what is not there is no error. Nothing on a mount is ever deleted."""
    for name in (KUBELET, PROXY):
        kill_daemon(name)  # first, so that nothing is started again
    _end_containers()
    for name in known_daemons():
        if name != CONTAINERD:
            stop_daemon(name, grace_s=0.5)
    kill_daemon(CONTAINERD)
    _end_containers()
    _remove_network(programs)
    _unmount_all()
    _remove_cgroups()
    release_hugepages()
    for link in layout.CONTAINER_LOG_LINKS.glob("*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(str(layout.DATA)):
            link.unlink()
    _remove_network_results()
    for folder in (layout.RUN, layout.DATA):
        if folder.exists():
            shutil.rmtree(folder)


def is_there() -> bool:
    """Tell whether something of a testbed is left."""
    bridge = Path("/sys/class/net", layout.BRIDGE)
    return any(path.exists() for path in (layout.DATA, layout.RUN, bridge))


def _end_containers() -> None:
    """Kill the containers' shims of our containerd, and all that runs below them."""
    end_processes(_container_processes, grace_s=0.0)


def _container_processes() -> frozenset[ProcessId]:
    parents: dict[int, int] = {}
    shims: set[int] = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError):
            status = Path("/proc", entry, "stat").read_text(errors="replace")
            parents[int(entry)] = int(status.rpartition(")")[2].split()[1])
            arguments = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
            is_shim = arguments[0].endswith(b"containerd-shim-runc-v2")
            if is_shim and str(layout.CONTAINERD_SOCKET).encode() in arguments:
                shims.add(int(entry))
    found = {pid for pid in parents if _has_ancestor(pid, parents, shims)}
    identities = (identify(pid) for pid in found)
    return frozenset(process for process in identities if process is not None)


def _has_ancestor(pid: int, parents: dict[int, int], wanted: set[int]) -> bool:
    while pid > 1:
        if pid in wanted:
            return True
        pid = parents.get(pid, 0)
    return False


def _remove_network(programs: Programs | None) -> None:
    _run_quietly("iptables", "--wait", "--table", "nat", "--delete", *API_RULE)
    if programs is not None and layout.DATA.exists():
        _run_quietly(programs.find(PROXY), "--cleanup")
    for chain in ("INPUT", "OUTPUT"):
        _run_quietly("iptables", "--wait", "--delete", chain, "--jump", "KUBE-FIREWALL")
    for table in ("filter", "nat", "mangle"):
        for chain in KUBELET_CHAINS:
            for change in ("--flush", "--delete-chain"):
                _run_quietly("iptables", "--wait", "--table", table, change, chain)
    _run_quietly("ip", "link", "delete", layout.BRIDGE)


def _unmount_all() -> None:
    """Detach all mounts below our folders, the deepest first; raise SetupError if one stays."""
    for point in sorted(_mount_points(), key=len, reverse=True):
        _run_quietly("umount", "--lazy", point)
    if left := _mount_points():
        raise SetupError(
            f"{left[0]} is still mounted, so nothing is deleted: unmount it, try again"
        )


def _mount_points() -> list[str]:
    folders = (f"{layout.DATA}/", f"{layout.RUN}/")
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [point for point in points if point.startswith(folders)]


def _remove_cgroups() -> None:
    """Remove the containers' empty cgroups; of another containerd none is empty."""
    for root in (CGROUPS, *CGROUPS.glob("*")):
        top = root / RUNTIME_NAMESPACE
        if not top.is_dir() or root.is_symlink():
            continue
        for folder, _, _ in sorted(os.walk(top), reverse=True):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def _remove_network_results() -> None:
    """Remove what the CNI library remembers of our pods, in a folder that is not only ours."""
    sandboxes = layout.CONTAINERD_ROOT / "io.containerd.grpc.v1.cri" / "sandboxes"
    pods = [path.name for path in sandboxes.glob("*")]
    for pod in pods:
        for result in layout.CNI_CACHE.glob(f"*-{pod}-*"):
            result.unlink()


def _run_quietly(*command: str) -> None:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(
            command, env={**os.environ, "PATH": path}, check=False, capture_output=True, timeout=60
        )
