"""Renders the configuration files of the testbed's programs; pure.

What stands here and is not obvious was found out by trial on cgroup v1 without systemd.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from tests.testbed import layout

# Users that the API server knows by token. Their roles are those that Kubernetes itself binds.
USERS: Mapping[str, tuple[str, ...]] = {
    "admin": ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "system:kube-proxy": (),
    f"system:node:{layout.NODE}": ("system:nodes",),
}
PAUSE_IMAGE = "docker.io/testbed/pause:1"


def render_tokens(tokens: Mapping[str, str]) -> str:
    """Return the API server's token file: token, user, uid, groups."""
    lines = [
        f'{token},{user},{user},"{",".join(USERS[user])}"'
        if USERS[user]
        else f"{token},{user},{user}"
        for user, token in tokens.items()
    ]
    return "\n".join(lines) + "\n"


def render_kubeconfig(*, user: str, token: str, authority: bytes) -> str:
    """Return a kubeconfig with one context; JSON is YAML."""
    name = layout.CONTEXT
    cluster = {
        "server": f"https://127.0.0.1:{layout.API_PORT}",
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2) + "\n"


def render_kubelet() -> str:
    """Return the kubelet's configuration."""
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.BRIDGE_ADDRESS,
        "port": layout.KUBELET_PORT,
        "healthzPort": layout.KUBELET_HEALTH_PORT,
        "readOnlyPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{layout.CONTAINERD_SOCKET}",
        "imagePullCredentialsVerificationPolicy": "NeverVerify",
        "imageGCHighThresholdPercent": 100,  # never: the image cannot be pulled again
        "evictionHard": {"memory.available": "100Mi"},
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": 240,  # what the subnet has addresses for
        "podLogsDir": str(layout.LOGS / "pods"),
        "resolvConf": "/etc/resolv.conf",
        "clusterDNS": [layout.BRIDGE_ADDRESS],
        "clusterDomain": layout.CLUSTER_DOMAIN,
    }
    return json.dumps(document, indent=2)


def render_containerd(*, snapshotter: str) -> str:
    """Return containerd's configuration."""
    return f"""version = 3
root = "{layout.CONTAINERD_ROOT}"
state = "{layout.CONTAINERD_STATE}"
[grpc]
address = "{layout.CONTAINERD_SOCKET}"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "{snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "{layout.REGISTRIES}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
enable_unprivileged_ports = false
enable_unprivileged_icmp = false
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{layout.CNI_PLUGINS}"]
conf_dir = "{layout.CNI_CONFIG}"
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
snapshotter = "{snapshotter}"
base_runtime_spec = "{layout.DATA / "runtime-spec.json"}"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "/usr/sbin/runc"
SystemdCgroup = false
"""


def render_registry() -> str:
    """Return the host file of every registry: a closed port, so that a pull fails at once."""
    address = "http://127.0.0.1:9"
    return f'server = "{address}"\n[host."{address}"]\ncapabilities = ["pull", "resolve"]\n'


def render_network() -> str:
    """Return the pods' network: a bridge of this machine, and addresses from one subnet."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": layout.POD_SUBNET, "gateway": layout.BRIDGE_ADDRESS}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(layout.CNI_STATE),
    }
    bridge = {
        "type": "bridge",
        "bridge": layout.BRIDGE,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,  # a pod that reaches itself by its Service
        "ipam": addresses,
    }
    document = {"cniVersion": "1.0.0", "name": layout.NETWORK, "plugins": [bridge]}
    return json.dumps(document, indent=2)


def render_name_server(*, kubeconfig: Path) -> str:
    """Return CoreDNS' Corefile; a name outside the cluster does not exist."""
    return f"""{layout.CLUSTER_DOMAIN}:53 {{
  bind {layout.BRIDGE_ADDRESS}
  errors
  health 127.0.0.1:{layout.DNS_HEALTH_PORT} {{
    lameduck 0s
  }}
  kubernetes {layout.CLUSTER_DOMAIN} {{
    kubeconfig {kubeconfig} {layout.CONTEXT}
    pods insecure
    ttl 1
  }}
}}
.:53 {{
  bind {layout.BRIDGE_ADDRESS}
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""


def render_proxy(*, kubeconfig: Path) -> str:
    """Return kube-proxy's configuration; all is masqueraded, so the bridge sees each answer."""
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "bindAddress": "127.0.0.1",
        "healthzBindAddress": f"127.0.0.1:{layout.PROXY_HEALTH_PORT}",
        "metricsBindAddress": f"127.0.0.1:{layout.PROXY_METRICS_PORT}",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": layout.NODE,
        "nodePortAddresses": [f"{layout.BRIDGE_ADDRESS}/32"],
        "iptables": {"masqueradeAll": True, "localhostNodePorts": False},
        # 0 leaves the machine's own limits alone.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    return json.dumps(document, indent=2)
