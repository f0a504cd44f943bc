"""GPU facts: how GPU types are spelled, which instances and labels they stand for, list prices.

Defaults only: what a cluster really offers, and at what price, is in its ClusterProfile.
"""

from dataclasses import dataclass

CPU_SLOT = "CPU"
"""The GPU type of a local slot on a machine without CUDA devices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuType:
    """One kind of GPU: `memory_gib` a device, `price_usd_per_hour` a device, where it is found."""

    name: str
    memory_gib: int
    price_usd_per_hour: float
    label_tokens: tuple[str, ...]
    aws_instance_types: tuple[str, ...] = ()


GPU_TYPES: dict[str, GpuType] = {
    gpu.name: gpu
    for gpu in (
        GpuType(
            name="B200_180GB",
            memory_gib=180,
            price_usd_per_hour=4.99,
            label_tokens=("B200",),
            aws_instance_types=("p6-b200.48xlarge",),
        ),
        GpuType(
            name="H200_141GB",
            memory_gib=141,
            price_usd_per_hour=3.49,
            label_tokens=("H200",),
            aws_instance_types=("p5en.48xlarge", "p5e.48xlarge"),
        ),
        GpuType(
            name="H100_80GB",
            memory_gib=80,
            price_usd_per_hour=2.49,
            label_tokens=("H100",),
            aws_instance_types=("p5.48xlarge",),
        ),
        GpuType(
            name="A100_80GB",
            memory_gib=80,
            price_usd_per_hour=1.49,
            label_tokens=("A100", "80GB"),
            aws_instance_types=("p4de.24xlarge",),
        ),
        GpuType(name=CPU_SLOT, memory_gib=0, price_usd_per_hour=0.0, label_tokens=()),
    )
}
"""Defaults by name; prices are round on-demand list prices, a profile states the real ones."""
