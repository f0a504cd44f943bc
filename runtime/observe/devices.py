"""The devices of this machine as slots: its CUDA devices, or CPU slots where it has none."""

import shutil
import subprocess

from runtime import gpus
from runtime.cluster import GpuOffer
from runtime.errors import SetupError


def find_devices(*, num_cpu_slots: int) -> tuple[str, ...]:
    """Return one device a slot: CUDA ids, or `num_cpu_slots` empty strings without CUDA."""
    cuda = [index for index, _ in _cuda_devices()]
    return tuple(cuda) if cuda else ("",) * num_cpu_slots


def local_offers(
    devices: tuple[str, ...], *, price_usd_per_hour: float | None
) -> tuple[GpuOffer, ...]:
    """Return the offers of these devices: one node of one GPU type.

    The type of CUDA devices is told by the driver's name for the first one; a machine of mixed
    types is offered as that one.
    """
    name = gpus.CPU_SLOT
    if any(devices):
        name = _gpu_type(_cuda_devices()[0][1])
    known = gpus.GPU_TYPES.get(name)
    price = price_usd_per_hour
    if price is None:
        price = known.price_usd_per_hour if known else 0.0
    return (GpuOffer(name=name, num_nodes=1, gpus_per_node=len(devices), price_usd_per_hour=price),)


def _gpu_type(driver_name: str) -> str:
    for gpu in gpus.GPU_TYPES.values():
        if gpu.label_tokens and all(token in driver_name for token in gpu.label_tokens):
            return gpu.name
    return driver_name.replace(" ", "_")


def _cuda_devices() -> list[tuple[str, str]]:
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    query = [command, "--query-gpu=index,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        raise SetupError("nvidia-smi does not answer within 20 s: check the driver") from None
    if answer.returncode != 0:
        return []  # a driver package without a device
    rows = (line.partition(",") for line in answer.stdout.splitlines() if line.strip())
    return [(index.strip(), name.strip()) for index, _, name in rows]
