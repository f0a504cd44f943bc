"""Addresses: which host and port each component's port has; defaults for pods, a block for local.

Pure. An address book maps (component name, port name) to host and port; `split` and `commands`
read it and never compute an address of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from runtime import naming, pod_names
from runtime.launch.components import HTTP, Component
from runtime.plan import RunPlan

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A host name and a port."""

    host: str
    port: int

    @property
    def tcp(self) -> str:
        """Return the address as a ZMQ endpoint."""
        return f"tcp://{self.host}:{self.port}"

    @property
    def api(self) -> str:
        """Return the address as the base URL of an OpenAI-style API."""
        return f"http://{self.host}:{self.port}/v1"


AddressBook = Mapping[tuple[str, str], Address]


def num_ports(components: tuple[Component, ...]) -> int:
    """Return how many ports the components bind: the size of a local run's port block."""
    return sum(len(component.ports) for component in components)


def local_addresses(components: tuple[Component, ...], base_port: int) -> AddressBook:
    """Return the addresses of a local run: loopback, ports counted up from `base_port`."""
    names = [(component.name, port.name) for component in components for port in component.ports]
    return {
        name: Address(host=LOOPBACK, port=base_port + offset) for offset, name in enumerate(names)
    }


def pod_addresses(plan: RunPlan, components: tuple[Component, ...]) -> AddressBook:
    """Return the addresses of a run of pods: one DNS name a pod, prime-rl's own port numbers.

    The name is relative to the namespace, which the pod's own search domains add.
    """
    service = pod_names.workload_name(plan.run_id, plan.attempt)
    return {
        (component.name, port.name): Address(
            host=f"{pod_names.host_name(plan.run_id, plan.attempt, component)}.{service}",
            port=port.number,
        )
        for component in components
        for port in component.ports
    }


def engine_addresses(components: tuple[Component, ...], book: AddressBook) -> list[Address]:
    """Return the address of every inference engine in rank order (pod by pod, rank by rank)."""
    return [
        book[component.name, port.name]
        for component in components
        if component.role.role == naming.INFERENCE
        for port in component.ports
        if port.name.startswith(f"{HTTP}-")
    ]
