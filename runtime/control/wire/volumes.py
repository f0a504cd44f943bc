"""Volumes on the wire."""

from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from runtime.control.requests import CreateVolume
from runtime.control.values import User, Volume
from runtime.control.wire.model import Answer, Request, Text
from runtime.control.wire.texts import without_markup

DEFAULT_SIZE = "5Ti"
"""The size that the `prime` client itself sends where the user names none."""

MAX_NAME_CHARS = 63


def is_volume_name(name: str) -> bool:
    """Tell whether a text is a DNS label: what a claim, a stack and a path can carry."""
    return (
        0 < len(name) <= MAX_NAME_CHARS
        and name.isascii()
        and name.replace("-", "a").isalnum()
        and name == name.lower()
        and name[0] != "-" != name[-1]
    )


def _name(name: str) -> str:
    if not is_volume_name(name):
        raise ValueError(
            f"a volume's name has up to {MAX_NAME_CHARS} of a-z, 0-9 and '-', no '-' at an end"
        )
    return name


VolumeName = Annotated[str, Field(max_length=1024), AfterValidator(_name)]


class CreateVolumeBody(Request):
    """A volume to make. `warm` is the client's hint, without a meaning here."""

    name: VolumeName
    size: Text = DEFAULT_SIZE
    warm: bool = True
    cluster: Text | None = None
    team_id: Text | None = None

    def to_request(self, team_id: str | None) -> CreateVolume:
        """Return the request."""
        return CreateVolume(name=self.name, size=self.size, cluster=self.cluster, team_id=team_id)


class ExpandVolumeBody(Request):
    """A volume's new size."""

    size: Text
    team_id: Text | None = None


class VolumeView(Answer):
    """A volume; the client waits for status RUNNING, which means ready."""

    name: str
    status: str
    size: str
    cluster_id: str
    cluster: str
    pvc_name: str
    created_by: str
    created_by_name: str | None
    created_by_email: str | None
    created_at: str
    """Shown as it is, so to the second."""
    reason: str

    @classmethod
    def of(cls, volume: Volume, maker: User | None) -> "VolumeView":
        """Return the view of a volume that a user made."""
        return cls(
            name=volume.name,
            status=volume.status,
            size=volume.size,
            cluster_id=volume.cluster,
            cluster=volume.cluster,
            pvc_name=volume.claim_name,
            created_by=volume.user_id,
            created_by_name=without_markup(maker.name) if maker else None,
            created_by_email=without_markup(maker.email) if maker else None,
            created_at=volume.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            reason=without_markup(volume.reason),
        )


class VolumeList(Answer):
    """All volumes of a user or a team."""

    volumes: tuple[VolumeView, ...]


class SessionList(Answer):
    """Shells on a volume: there are none, since they need a gateway."""

    sessions: tuple[dict[str, JsonValue], ...] = ()


class TransferList(Answer):
    """Imports and exports of a volume: there are none."""

    transfers: tuple[dict[str, JsonValue], ...] = ()
