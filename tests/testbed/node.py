"""Starts the one real node: its network, containerd, kubelet, name server and service proxy."""

import json
import os
import subprocess
from pathlib import Path

from runtime.errors import SetupError
from tests.testbed import configuration, layout
from tests.testbed.control_plane import kubeconfig_of
from tests.testbed.daemons import start_daemon, wait_until
from tests.testbed.image import Image, add_mounts, mounted_folders
from tests.testbed.programs import Programs

CONTAINERD, KUBELET, PROXY, NAME_SERVER = "containerd", "kubelet", "kube-proxy", "coredns"
NUM_HUGEPAGES = 128  # of 2 MiB
_HUGEPAGES = Path("/proc/sys/vm/nr_hugepages")
_HUGEPAGES_BEFORE = layout.DATA / "hugepages-before"
# From pods to the API server on the loopback, whose Service has no endpoints.
API_RULE = (
    *("PREROUTING", "-i", layout.BRIDGE, "-d", layout.KUBERNETES_SERVICE, "-p", "tcp"),
    *("--dport", "443", "-j", "DNAT", "--to-destination", f"127.0.0.1:{layout.API_PORT}"),
)


def make_network() -> None:
    """Make the pods' bridge with its address now, which else the first pod would do."""
    run("ip", "link", "add", layout.BRIDGE, "type", "bridge")
    prefix = layout.POD_SUBNET.rpartition("/")[2]
    run("ip", "address", "add", f"{layout.BRIDGE_ADDRESS}/{prefix}", "dev", layout.BRIDGE)
    run("ip", "link", "set", layout.BRIDGE, "up")
    # Packets from pods may reach 127.0.0.1, which is what the rule below turns them to.
    Path(f"/proc/sys/net/ipv4/conf/{layout.BRIDGE}/route_localnet").write_text("1")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    run("iptables", "--wait", "--table", "nat", "--insert", *API_RULE)


def reserve_hugepages() -> None:
    """Set memory aside for huge pages, as GPU nodes do; the machine may have room for fewer."""
    _HUGEPAGES_BEFORE.write_text(_HUGEPAGES.read_text())
    if int(_HUGEPAGES.read_text()) < NUM_HUGEPAGES:
        _HUGEPAGES.write_text(str(NUM_HUGEPAGES))


def release_hugepages() -> None:
    """Give the memory back that was set aside."""
    if _HUGEPAGES_BEFORE.exists():
        _HUGEPAGES.write_text(_HUGEPAGES_BEFORE.read_text())


def start_containerd(programs: Programs) -> None:
    """Start containerd, each of whose containers has this machine's Python mounted."""
    for folder in (layout.CNI_CONFIG, layout.REGISTRIES / "_default", layout.CONTAINERD_STATE):
        folder.mkdir(parents=True)
    (layout.CNI_CONFIG / "10-bridge.conflist").write_text(configuration.render_network())
    hosts = layout.REGISTRIES / "_default" / "hosts.toml"
    hosts.write_text(configuration.render_registry())
    default_spec = json.loads(run(programs.find("ctr"), "oci", "spec"))
    spec = add_mounts(default_spec, mounted_folders())
    (layout.DATA / "runtime-spec.json").write_text(json.dumps(spec))
    config = layout.DATA / "containerd.toml"
    config.write_text(configuration.render_containerd(snapshotter=_snapshotter()))
    path = f"{programs.containerd}:{os.environ['PATH']}:/usr/sbin:/sbin"
    command = [programs.find(CONTAINERD), "--config", str(config)]
    start_daemon(CONTAINERD, command, environment={**os.environ, "PATH": path})


def wait_for_containerd(programs: Programs) -> None:
    """Wait until containerd answers."""

    def answers() -> bool:
        return layout.CONTAINERD_SOCKET.exists() and ctr(programs, "version").returncode == 0

    wait_until(answers, what="containerd answers", daemons=[CONTAINERD])


def import_image(programs: Programs, image: Image) -> None:
    """Put an image into containerd, in place of another one of its name."""
    archive = layout.DATA / "image.tar"
    archive.write_bytes(image.archive)
    result = ctr(programs, "images", "import", str(archive))
    archive.unlink()
    if result.returncode != 0:
        raise SetupError(f"containerd refused the image {image.name}: {result.stderr.strip()}")


def start_kubelet(programs: Programs) -> None:
    """Start the kubelet, which registers the node."""
    config = layout.DATA / "kubelet.yaml"
    config.write_text(configuration.render_kubelet())
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": layout.GPU_PRODUCT,
        "nvidia.com/gpu.count": str(layout.NUM_GPUS),
        "nvidia.com/gpu.memory": str(layout.GPU_MEMORY_MIB),
    }
    command = [programs.find(KUBELET), "--config", str(config)]
    command += ["--kubeconfig", str(kubeconfig_of(f"system:node:{layout.NODE}"))]
    command += ["--root-dir", str(layout.KUBELET_ROOT), "--cert-dir", str(layout.CERTIFICATES)]
    command += ["--hostname-override", layout.NODE, "--node-ip", layout.BRIDGE_ADDRESS]
    command += ["--node-labels", ",".join(f"{key}={value}" for key, value in labels.items())]
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    start_daemon(KUBELET, command, environment={**os.environ, "PATH": path})


def start_services(programs: Programs) -> None:
    """Start the name server, and the proxy that lets a Service's own address be reached."""
    corefile = layout.DATA / "Corefile"
    corefile.write_text(configuration.render_name_server(kubeconfig=layout.KUBECONFIG))
    command = [programs.find(NAME_SERVER), "-conf", str(corefile)]
    start_daemon(NAME_SERVER, command, environment=os.environ)
    config = layout.DATA / "kube-proxy.yaml"
    kubeconfig = kubeconfig_of(f"system:{PROXY}")
    config.write_text(configuration.render_proxy(kubeconfig=kubeconfig))
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    start_daemon(
        PROXY,
        [programs.find(PROXY), "--config", str(config)],
        environment={**os.environ, "PATH": path},
    )


def extended_resources() -> dict[str, str]:
    """Return what the node advertises by a patch; the kubelet keeps it over its own restarts."""
    return {"nvidia.com/gpu": str(layout.NUM_GPUS), "rdma/ib": str(layout.NUM_RDMA)}


def ctr(programs: Programs, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run containerd's client in the kubelet's namespace."""
    command = [programs.find("ctr"), "--address", str(layout.CONTAINERD_SOCKET)]
    command += ["--namespace", "k8s.io", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def run(*command: str) -> str:
    """Run a command of this machine and return its output; raise SetupError when it fails."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    result = subprocess.run(
        command, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    if result.returncode != 0:
        words = " ".join(command[:4])
        raise SetupError(f"`{words}` failed: {(result.stderr or result.stdout).strip()}")
    return result.stdout


def _snapshotter() -> str:
    """Return overlayfs, except where the data lie on an overlay, which cannot carry another."""
    kind = run("stat", "--file-system", "--format", "%T", str(layout.DATA)).strip()
    return "native" if kind == "overlayfs" else "overlayfs"
