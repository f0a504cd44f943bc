"""Where the testbed keeps its things, its addresses and its ports; there is one a machine."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
SOURCES = Path(__file__).resolve().parent
VENV = CHECKOUT / ".venv"

DATA = Path("/var/lib/paddock-testbed")  # gone after a stop
RUN = Path("/run/paddock-testbed")  # sockets and pids: a socket's path must be short
LOCK = Path("/run/paddock-testbed.lock")
LOGS = DATA / "logs"
STATE = DATA / "state.json"
KUBECONFIG = DATA / "kubeconfig"
CREDENTIALS = DATA / "credentials"
CERTIFICATES = DATA / "certificates"
CERTIFICATE_AUTHORITY = CERTIFICATES / "apiserver.crt"
VOLUMES = DATA / "volumes"
CONTAINERD_ROOT = DATA / "containerd"
CONTAINERD_STATE = RUN / "containerd"
CONTAINERD_SOCKET = CONTAINERD_STATE / "containerd.sock"
REGISTRIES = DATA / "registries"
KUBELET_ROOT = DATA / "kubelet"
CNI_CONFIG = DATA / "cni"
CNI_STATE = DATA / "cni-state"
CNI_CACHE = Path("/var/lib/cni/results")  # where the CNI library keeps what it did
CNI_PLUGINS = Path("/usr/lib/cni")  # Debian's containernetworking-plugins
CONTAINER_LOG_LINKS = Path("/var/log/containers")  # the kubelet makes them there whatever is said

KUBECONFIG_VARIABLE = "PADDOCK_TEST_KUBECONFIG"  # names a cluster to use instead

CONTEXT = "testbed"
NODE = "n0"
NETWORK = "paddock-testbed"
BRIDGE = "pdk0"
BRIDGE_ADDRESS = "10.244.0.1"
POD_SUBNET = "10.244.0.0/24"
SERVICE_SUBNET = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"  # the first address of the subnet is the API server's
CLUSTER_DOMAIN = "cluster.local"

ETCD_PORT = 23790
ETCD_PEER_PORT = 23800
API_PORT = 26443
CONTROLLER_MANAGER_PORT = 26257
SCHEDULER_PORT = 26259
KUBELET_PORT = 20250
KUBELET_HEALTH_PORT = 20248
PROXY_HEALTH_PORT = 20256
PROXY_METRICS_PORT = 20249
DNS_HEALTH_PORT = 28080
PORTS = (
    ETCD_PORT,
    ETCD_PEER_PORT,
    API_PORT,
    CONTROLLER_MANAGER_PORT,
    SCHEDULER_PORT,
    KUBELET_HEALTH_PORT,
    PROXY_HEALTH_PORT,
    PROXY_METRICS_PORT,
    DNS_HEALTH_PORT,
)

NUM_GPUS = 32
GPU_PRODUCT = "NVIDIA-H200"
GPU_MEMORY_MIB = 143771  # as GPU feature discovery labels an H200
NUM_RDMA = 1000


def cache_dir() -> Path:
    """Return paddock's cache of this user, where the built programs lie."""
    chosen = os.environ.get("PADDOCK_CACHE")
    return Path(chosen).resolve() if chosen else Path.home() / ".cache" / "paddock"
