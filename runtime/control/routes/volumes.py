"""Volumes: create, list, expand, delete. Shells and transfers need a gateway and are not served."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from runtime.control.auth import CallerDep, KeyedRoute, ServicesDep, limit_notes
from runtime.control.wire.model import Text
from runtime.control.wire.volumes import (
    CreateVolumeBody,
    ExpandVolumeBody,
    SessionList,
    TransferList,
    VolumeList,
    VolumeView,
    is_volume_name,
)
from runtime.errors import NotFoundError

router = APIRouter(prefix="/training/volumes", tags=["volumes"], route_class=KeyedRoute)

TeamId = Annotated[Text | None, Query(alias="teamId")]


def volume_name(name: str) -> str:
    """Return the name in the path. Raises NotFoundError for one that no volume can have."""
    if not is_volume_name(name):
        raise NotFoundError("Volume not found")
    return name


NameDep = Annotated[str, Depends(volume_name)]


@router.get("")
def list_volumes(caller: CallerDep, services: ServicesDep, team_id: TeamId = None) -> VolumeList:
    """List the volumes of the caller, or of a team."""
    found = services.volumes.page(caller.user, caller.team_for(team_id))
    makers = {
        user_id: services.accounts.find_user(user_id)
        for user_id in {volume.user_id for volume in found}
    }
    return VolumeList(
        volumes=tuple(VolumeView.of(volume, makers[volume.user_id]) for volume in found)
    )


@router.post("", status_code=201, dependencies=[Depends(limit_notes)])
def create(body: CreateVolumeBody, caller: CallerDep, services: ServicesDep) -> VolumeView:
    """Make a volume."""
    request = body.to_request(caller.team_for(body.team_id))
    return VolumeView.of(services.volumes.create(caller.user, request), caller.user)


@router.patch("/{name}", dependencies=[Depends(limit_notes)])
def expand(
    name: NameDep, body: ExpandVolumeBody, caller: CallerDep, services: ServicesDep
) -> VolumeView:
    """Make a volume larger."""
    team_id = caller.team_for(body.team_id)
    volume = services.volumes.expand(caller.user, name, size=body.size, team_id=team_id)
    return VolumeView.of(volume, services.accounts.find_user(volume.user_id))


@router.delete("/{name}", status_code=204, response_class=Response)
def delete(name: NameDep, caller: CallerDep, services: ServicesDep, team_id: TeamId = None) -> None:
    """Delete a volume and what is on it."""
    services.volumes.delete(caller.user, name, team_id=caller.team_for(team_id))


@router.get("/{name}/sessions")
def sessions(name: NameDep, caller: CallerDep) -> SessionList:
    """List shells on a volume."""
    return SessionList()


@router.get("/{name}/transfers")
def transfers(name: NameDep, caller: CallerDep) -> TransferList:
    """List imports and exports of a volume."""
    return TransferList()


@router.delete("/{name}/sessions/{session_id}")
def stop_session(name: NameDep, session_id: str, caller: CallerDep) -> None:
    """Say that there is no such shell."""
    raise NotFoundError("Session not found")


@router.get("/{name}/transfers/{transfer_id}")
@router.delete("/{name}/transfers/{transfer_id}")
def transfer(name: NameDep, transfer_id: str, caller: CallerDep) -> None:
    """Say that there is no such import or export."""
    raise NotFoundError("Transfer not found")
