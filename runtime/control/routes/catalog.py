"""What can be had: models and GPU types."""

from typing import Annotated

from fastapi import APIRouter, Query

from runtime.control.auth import CallerDep, ServicesDep
from runtime.control.wire.catalog import GpuTypes, ModelList
from runtime.control.wire.model import Text

router = APIRouter(prefix="/training", tags=["catalog"])

TeamId = Annotated[Text | None, Query()]


@router.get("/available-fft-models")
def models(caller: CallerDep, services: ServicesDep, team_id: TeamId = None) -> ModelList:
    """List the models that start warm, and the GPU types with their prices."""
    team = caller.team_for(team_id)
    catalog = services.catalog
    return ModelList.of(catalog.models(caller.user, team), catalog.gpus(caller.user, team))


@router.get("/available-gpu-types")
def gpu_types(caller: CallerDep, services: ServicesDep, team_id: TeamId = None) -> GpuTypes:
    """List the GPU types."""
    found = services.catalog.gpus(caller.user, caller.team_for(team_id))
    return GpuTypes(gpu_types=tuple(gpu.gpu_type for gpu in found))
