"""Starts the testbed, or finds the one that runs, and stops it; one caller at a time."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import SetupError
from tests.testbed import control_plane, layout, node
from tests.testbed.cluster import Testbed
from tests.testbed.daemons import find_daemon, known_daemons, log_tail, wait_for_ports
from tests.testbed.image import pause_image, prime_rl_image
from tests.testbed.programs import (
    Programs,
    are_built,
    build_programs,
    install_packages,
    missing_packages,
)
from tests.testbed.removal import is_there, remove_all
from toolchain.progress import say

TOPIC = "testbed"
DAEMONS = (
    *(control_plane.ETCD, control_plane.API_SERVER),
    *(control_plane.CONTROLLER_MANAGER, control_plane.SCHEDULER),
    *(node.CONTAINERD, node.KUBELET, node.NAME_SERVER, node.PROXY),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What a running testbed was started from."""

    checkout: str
    programs: str
    image: str


def start() -> tuple[Testbed, bool]:
    """Return the running testbed, and whether this call started it.

    One of this checkout is used again, its image made anew if its folder changed. Raises
    SetupError where there can be none, or pods run in another checkout's.
    """
    check_machine()
    programs = build_programs()
    with only_caller():
        found = read_state()
        if found is not None and is_running():
            if _is_reusable(found, programs):
                return _reuse(programs, found), False
            say(TOPIC, "stopping the testbed, since its programs or its checkout are others now")
        if is_there():
            remove_all(programs)
        return _start(programs), True


def stop() -> bool:
    """End the testbed, remove all of it, and tell whether there was one."""
    if os.geteuid() != 0:
        raise SetupError("the testbed is root's: stop it as root")
    with only_caller():
        if not is_there():
            return False
        remove_all(build_programs() if are_built() else None)
        return True


def check_machine() -> None:
    """Install what Debian's packages are missing; raise SetupError where no testbed can run."""
    if os.geteuid() != 0:
        raise SetupError(
            "the testbed runs containers and needs root: run this as root, or point the tests at "
            "a cluster of yours with PADDOCK_TEST_KUBECONFIG, or leave them out with "
            "PADDOCK_SKIP=testbed,cluster"
        )
    if missing_packages():
        install_packages()


def is_running() -> bool:
    """Tell whether all programs of the testbed run."""
    return all(find_daemon(name) is not None for name in DAEMONS)


def read_state() -> State | None:
    """Return what the testbed was started from, None where none has come up."""
    try:
        return State(**json.loads(layout.STATE.read_text()))
    except (FileNotFoundError, PermissionError, json.JSONDecodeError, TypeError):
        return None


def describe() -> str:
    """Return what runs, for people."""
    found = read_state()
    if found is None:
        return "no testbed" if not known_daemons() else "a testbed that has not come up"
    dead = [name for name in DAEMONS if find_daemon(name) is None]
    health = f"without {', '.join(dead)}" if dead else "running"
    return f"the testbed of {found.checkout}: {health}"


def _is_reusable(found: State, programs: Programs) -> bool:
    if found.checkout == str(layout.CHECKOUT):
        return found.programs == programs.fingerprint
    if Path(found.checkout).exists() and _is_busy(programs):
        raise SetupError(
            f"pods run in the testbed of another checkout ({found.checkout}), and they see that "
            "one: run `make cluster-stop` there, or wait until they are done"
        )
    return False


def _is_busy(programs: Programs) -> bool:
    """Tell whether pods are there, or nobody can say."""
    testbed = Testbed(kubeconfig=layout.KUBECONFIG, programs=programs)
    pods = testbed.try_kubectl("get", "pods", "--all-namespaces", "--output", "name")
    return pods.returncode != 0 or bool(pods.stdout.strip())


def _reuse(programs: Programs, found: State) -> Testbed:
    image = prime_rl_image()
    if found.image != image.digest:
        node.import_image(programs, image)
        _write_state(programs, image_digest=image.digest)
        say(TOPIC, f"imported {image.name} anew: tests/testbed/image has changed")
    return Testbed(kubeconfig=layout.KUBECONFIG, programs=programs)


def _start(programs: Programs) -> Testbed:
    started = time.monotonic()
    say(TOPIC, "starting ...")
    wait_for_ports(layout.PORTS)
    layout.DATA.mkdir(mode=0o711)
    layout.RUN.mkdir(mode=0o711)
    control_plane.make_credentials()
    control_plane.start_etcd(programs)
    control_plane.start_api_server(programs)
    node.make_network()
    node.start_containerd(programs)
    node.wait_for_containerd(programs)
    image = prime_rl_image()
    for made in (pause_image(), image):
        node.import_image(programs, made)
    control_plane.wait_for_api_server()
    control_plane.write_kubeconfigs()
    control_plane.start_controllers(programs)
    node.reserve_hugepages()
    node.start_kubelet(programs)
    node.start_services(programs)
    testbed = Testbed(kubeconfig=layout.KUBECONFIG, programs=programs)
    testbed.declare_storage()
    testbed.wait_until_ready()
    _check_daemons()
    _write_state(programs, image_digest=image.digest)
    say(TOPIC, f"ready in {time.monotonic() - started:.1f} s")
    return testbed


def _check_daemons() -> None:
    """Raise SetupError when a program has ended: nobody waits for the name server."""
    for name in DAEMONS:
        if find_daemon(name) is None:
            raise SetupError(f"{name} ended:\n{log_tail(name)}")


def _write_state(programs: Programs, *, image_digest: str) -> None:
    state = {"checkout": str(layout.CHECKOUT), "programs": programs.fingerprint}
    layout.STATE.write_text(json.dumps({**state, "image": image_digest}))


@contextmanager
def only_caller() -> Iterator[None]:
    """Keep others from starting or stopping the testbed; a start takes one in part for none."""
    with layout.LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(TOPIC, "waiting for another start or stop of the testbed ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
