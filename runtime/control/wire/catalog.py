"""Models and GPU types on the wire."""

from collections.abc import Sequence

from runtime.control.readings import CachedModel, GpuAvailability
from runtime.control.values import MICROUSD_PER_USD
from runtime.control.wire.model import Answer
from runtime.control.wire.texts import without_markup


class ModelCluster(Answer):
    """A cluster that has a model in its cache."""

    cluster_id: str
    cluster_name: str
    gpu_type: str | None


class ModelView(Answer):
    """A model that starts warm."""

    name: str
    clusters: tuple[ModelCluster, ...]


class GpuOffer(Answer):
    """A GPU type, its price, and whether one is free."""

    gpu_type: str
    price_per_gpu_hour: float
    discount_label: str | None = None
    available_now: bool
    is_beta: bool = False


class ModelList(Answer):
    """What `prime train models` shows: warm models, and the GPU types with their prices."""

    models: tuple[ModelView, ...]
    on_demand: tuple[GpuOffer, ...]
    on_demand_beta_access: bool = True

    @classmethod
    def of(cls, models: Sequence[CachedModel], gpus: Sequence[GpuAvailability]) -> "ModelList":
        """Return the answer, each model once with all its clusters."""
        clusters: dict[str, list[ModelCluster]] = {}
        for model in models:
            clusters.setdefault(model.name, []).append(
                ModelCluster(
                    cluster_id=model.cluster, cluster_name=model.cluster, gpu_type=model.gpu_type
                )
            )
        return cls(
            models=tuple(
                ModelView(name=without_markup(name), clusters=tuple(found))
                for name, found in clusters.items()
            ),
            on_demand=tuple(
                GpuOffer(
                    gpu_type=gpu.gpu_type,
                    price_per_gpu_hour=gpu.price_microusd_per_hour / MICROUSD_PER_USD,
                    available_now=gpu.is_available,
                )
                for gpu in gpus
            ),
        )


class GpuTypes(Answer):
    """The names of the GPU types."""

    gpu_types: tuple[str, ...]
