"""Starts etcd, the API server, the controller manager and the scheduler on the loopback."""

import os
import secrets
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from runtime.errors import SetupError
from tests.testbed import layout
from tests.testbed.configuration import USERS, render_kubeconfig, render_tokens
from tests.testbed.daemons import start_daemon, wait_until
from tests.testbed.programs import Programs

ETCD, API_SERVER = "etcd", "kube-apiserver"
CONTROLLER_MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
ETCD_URL = f"http://127.0.0.1:{layout.ETCD_PORT}"
ACCOUNT_KEY = layout.CREDENTIALS / "service-accounts.key"
ACCOUNT_PUBLIC_KEY = layout.CREDENTIALS / "service-accounts.pub"
TOKENS = layout.CREDENTIALS / "tokens.csv"
# A lost node shows after the first, and its pods go after the second; Kubernetes takes 50 and 300.
NODE_GRACE_S = 30
EVICTION_S = 15
# Gang scheduling (Workload, PodGroup) is beta and off by default in 1.37.
GANG_API = "scheduling.k8s.io/v1beta1=true"
GANG_GATES = "GenericWorkload=true"


def make_credentials() -> None:
    """Make the users' tokens and the key that signs the tokens of service accounts."""
    layout.CREDENTIALS.mkdir(parents=True, mode=0o700)
    tokens = {user: secrets.token_urlsafe(24) for user in USERS}
    _write_private(TOKENS, render_tokens(tokens))
    _openssl("genrsa", "-out", str(ACCOUNT_KEY), "2048")
    _openssl("rsa", "-in", str(ACCOUNT_KEY), "-pubout", "-out", str(ACCOUNT_PUBLIC_KEY))
    ACCOUNT_KEY.chmod(0o600)


def kubeconfig_of(user: str) -> Path:
    """Return where the kubeconfig of one of the users lies; the admin's is the testbed's."""
    if user == "admin":
        return layout.KUBECONFIG
    return layout.CREDENTIALS / f"{user.replace(':', '-')}.kubeconfig"


def start_etcd(programs: Programs) -> None:
    """Start the store, without the syncs that a store of value needs."""
    peer = f"http://127.0.0.1:{layout.ETCD_PEER_PORT}"
    command = [programs.find(ETCD), "--data-dir", str(layout.DATA / "etcd"), "--unsafe-no-fsync"]
    command += ["--listen-client-urls", ETCD_URL, "--advertise-client-urls", ETCD_URL]
    command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
    command += ["--initial-cluster", f"default={peer}", "--quota-backend-bytes", str(4 << 30)]
    start_daemon(ETCD, command, environment=os.environ)


def start_api_server(programs: Programs) -> None:
    """Start the API server; roles are enforced, and pods have real tokens of their accounts."""
    options = {
        "etcd-servers": ETCD_URL,
        "bind-address": "127.0.0.1",
        "secure-port": layout.API_PORT,
        "cert-dir": layout.CERTIFICATES,
        "endpoint-reconciler-type": "none",  # it refuses to advertise the loopback
        "service-cluster-ip-range": layout.SERVICE_SUBNET,
        "kubelet-preferred-address-types": "InternalIP",
        "authorization-mode": "Node,RBAC",
        "token-auth-file": TOKENS,
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": ACCOUNT_PUBLIC_KEY,
        "service-account-signing-key-file": ACCOUNT_KEY,
        "allow-privileged": "true",
        "runtime-config": GANG_API,
        "feature-gates": GANG_GATES,
        "default-not-ready-toleration-seconds": EVICTION_S,
        "default-unreachable-toleration-seconds": EVICTION_S,
        "shutdown-delay-duration": "0s",
    }
    start_daemon(API_SERVER, _command(programs, API_SERVER, options), environment=os.environ)


def wait_for_api_server() -> None:
    """Wait until the API server serves, with its built-in roles in place."""
    wait_until(_is_serving, what="the API server is ready", daemons=[API_SERVER, ETCD])


def write_kubeconfigs() -> None:
    """Write each user's kubeconfig; the API server has made its certificate by now."""
    authority = layout.CERTIFICATE_AUTHORITY.read_bytes()
    for user, token in _read_tokens().items():
        text = render_kubeconfig(user=user, token=token, authority=authority)
        _write_private(kubeconfig_of(user), text)


def start_controllers(programs: Programs) -> None:
    """Start the controller manager and the scheduler."""
    options = {
        "bind-address": "127.0.0.1",
        "cert-dir": layout.CERTIFICATES,
        "leader-elect": "false",
        "feature-gates": GANG_GATES,
    }
    managing = {
        "kubeconfig": kubeconfig_of(f"system:{CONTROLLER_MANAGER}"),
        "secure-port": layout.CONTROLLER_MANAGER_PORT,
        "use-service-account-credentials": "true",
        "service-account-private-key-file": ACCOUNT_KEY,
        "root-ca-file": layout.CERTIFICATE_AUTHORITY,
        "node-monitor-grace-period": f"{NODE_GRACE_S}s",
        "kube-api-qps": 200,
        "kube-api-burst": 400,
    }
    scheduling = {
        "kubeconfig": kubeconfig_of(f"system:{SCHEDULER}"),
        "secure-port": layout.SCHEDULER_PORT,
        "kube-api-qps": 200,
        "kube-api-burst": 400,
    }
    for name, own in ((CONTROLLER_MANAGER, managing), (SCHEDULER, scheduling)):
        start_daemon(name, _command(programs, name, {**options, **own}), environment=os.environ)


def _command(programs: Programs, name: str, options: dict[str, object]) -> list[str]:
    return [programs.find(name), *(f"--{option}={value}" for option, value in options.items())]


def _read_tokens() -> dict[str, str]:
    rows = [line.split(",") for line in TOKENS.read_text().splitlines()]
    return {user: token for token, user, *_ in rows}


def _is_serving() -> bool:
    try:
        context = ssl.create_default_context(cafile=str(layout.CERTIFICATE_AUTHORITY))
    except (OSError, ssl.SSLError):
        return False  # not written, or only in part
    request = urllib.request.Request(f"https://127.0.0.1:{layout.API_PORT}/readyz")
    request.add_header("Authorization", f"Bearer {_read_tokens()['admin']}")
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _openssl(*arguments: str) -> None:
    result = subprocess.run(["/usr/bin/openssl", *arguments], capture_output=True, text=True)
    if result.returncode != 0:
        raise SetupError(f"openssl {arguments[0]} failed: {result.stderr.strip()}")


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
