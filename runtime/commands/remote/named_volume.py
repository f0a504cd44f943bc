"""The volume that a dispatch names: made where it is absent, as `prime` does, and waited for."""

import time

from runtime.client import catalog
from runtime.client.answers import Volume
from runtime.client.api import Api
from runtime.client.errors import (
    NotNowError,
    RateLimitedError,
    ServerError,
    UnreachableError,
)
from runtime.client.printable import printable
from runtime.commands.remote.run_file import RunFile
from runtime.commands.session import say
from runtime.errors import Problem, RefusedError

READY_S = 180.0
"""How long a volume is waited for, as the `prime` client does."""

_LOOK_S = 3.0
_FAILED = frozenset({"FAILED", "TOMBSTONED"})
_SETTLED = _FAILED | {"RUNNING", "TERMINATING"}


def provide_volume(api: Api, file: RunFile) -> None:
    """Return when the volume of a file or its flags is ready, or the server is to refuse it.

    Raises ConfigError for a file that is wrong before a volume is made for it, RefusedError for a
    volume that failed, NotNowError for one that is not ready in time.
    """
    volume = _settled(api, _found_or_made(api, file))
    if volume.status in _FAILED:
        raise RefusedError([_problem(volume, "delete it with paddock volumes, or name another")])


def _found_or_made(api: Api, file: RunFile) -> Volume:
    name, size = file.keys.volume, file.keys.volume_size
    assert name is not None, "the caller has looked"
    found = _find(api, name)
    if found is None:
        file.check()
        made = catalog.create_volume(api, name, size=size, cluster=None)
        say(f"Volume {name} does not exist: making it")  # not of one that the server refuses
        return made
    if size is not None and size != found.size:
        say(
            f"Volume {name} is there already ({printable(found.size or 'unknown size')}): size "
            f"{size} is not used, see paddock volumes expand"
        )
    return found


def _settled(api: Api, volume: Volume) -> Volume:
    """Return a volume once nothing is under way with it, saying what is; gone = as it was last."""
    deadline = time.monotonic() + READY_S
    told = ""
    while volume.status not in _SETTLED:
        if time.monotonic() >= deadline:
            fix = "the same command goes on waiting for it"
            raise NotNowError([_problem(volume, fix, after=f" after {READY_S:.0f} s")])
        if told != (told := _state(volume)):
            say(f"Volume {volume.name} is {told}")
        time.sleep(_LOOK_S)
        try:
            found = _find(api, volume.name)
        except (UnreachableError, ServerError, RateLimitedError):
            continue  # it is being made; this was only a look
        if found is None:
            return volume
        volume = found
    return volume


def _find(api: Api, name: str) -> Volume | None:
    return next((one for one in catalog.list_volumes(api) if one.name == name), None)


def _problem(volume: Volume, fix: str, *, after: str = "") -> Problem:
    message = f"volume {volume.name} is {_state(volume)}{after}"
    return Problem(loc=("volume",), message=message, fix=fix, code="volume")


def _state(volume: Volume) -> str:
    return printable(f"{volume.status}: {volume.reason}" if volume.reason else volume.status)
