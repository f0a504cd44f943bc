"""What can be had, volumes, and the user, as requests of the API."""

from runtime.client.answers import ModelList, Person, Volume, read
from runtime.client.api import Api, Ask, path_of, rows

_VOLUMES = "/training/volumes"


def whoami(api: Api) -> Person:
    """Return whom the API key stands for."""
    return read(Person, api.ask(Ask(path="/user/whoami")).get("data"))


def list_models(api: Api) -> ModelList:
    """Return the warm models, and the GPU types with their prices."""
    return read(ModelList, api.ask(Ask(path="/training/available-fft-models")))


def list_gpu_types(api: Api) -> list[str]:
    """Return the names of the GPU types."""
    found = api.ask(Ask(path="/training/available-gpu-types"))
    return [str(name) for name in rows(found, "gpuTypes")]


def list_volumes(api: Api) -> list[Volume]:
    """Return the volumes of the user, or of the key's team."""
    return [read(Volume, row) for row in rows(api.ask(Ask(path=_VOLUMES)), "volumes")]


def create_volume(api: Api, name: str, *, size: str | None, cluster: str | None) -> Volume:
    """Make a volume; the server chooses what is None."""
    body = {"name": name, "size": size, "cluster": cluster}
    given = {key: value for key, value in body.items() if value is not None}
    return read(Volume, api.ask(Ask(method="POST", path=_VOLUMES, body=given, source=name)))


def expand_volume(api: Api, name: str, size: str) -> Volume:
    """Make a volume larger."""
    path = _VOLUMES + path_of(name)
    return read(Volume, api.ask(Ask(method="PATCH", path=path, body={"size": size}, source=name)))


def delete_volume(api: Api, name: str) -> None:
    """Delete a volume and what is on it."""
    api.ask(Ask(method="DELETE", path=_VOLUMES + path_of(name), source=name))
