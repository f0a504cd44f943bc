"""The keys of a file that say how a run is dispatched and are not prime-rl's. A flag wins."""

from dataclasses import dataclass

from runtime.config.notices import Notice
from runtime.config.toml_text import Table
from runtime.errors import Problem
from runtime.limits import DEFAULT_IMAGE_TAG

_TEXT_KEYS = ("image_tag", "gpu_type", "volume", "volume_size")
_CLIENT_KEYS = ("env_file", "env_files", "source_ref")  # read by the client that sends the file
_UNUSED = {
    "env_file": "read by `paddock train`, where it dispatches; else pass --env-file",
    "env_files": "read by `paddock train`, where it dispatches; else pass --env-file",
    "volume_size": (
        "the size of a volume that `paddock train` makes; one that is there keeps its own"
    ),
}
_SOURCE_REF = Problem(  # else another build than the one that the file names would run
    loc=("source_ref",),
    message="not served here",
    fix="choose a build of prime-rl with image_tag",
    code="not_served",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchFlags:
    """What the command line said; None = nothing."""

    image_tag: str | None = None
    gpu_type: str | None = None
    volume: str | None = None
    volume_size: str | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvFile:
    """A file of secrets that a run's file names, by a path from where that one lies."""

    loc: tuple[str | int, ...]
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchKeys:
    """What holds for the run: flag over file over default; no `gpu_type` = admission picks."""

    image_tag: str = DEFAULT_IMAGE_TAG
    gpu_type: str | None = None
    volume: str | None = None
    volume_size: str | None = None
    name: str | None = None
    env_files: tuple[EnvFile, ...] = ()
    """Values of later ones win."""


def take_dispatch_keys(
    table: Table, flags: DispatchFlags, *, is_stored: bool = False
) -> tuple[DispatchKeys, list[Notice], list[Problem]]:
    """Remove the dispatch keys from a table; return them, what is unused and what is wrong.

    A table that `is_stored` was accepted before, perhaps by an earlier release.
    """
    problems: list[Problem] = []
    notices = [
        Notice(code="dispatch_key", path=key, message=message)
        for key, message in _UNUSED.items()
        if key in table
    ]
    texts = {key: _text(key, table.pop(key), problems) for key in _TEXT_KEYS if key in table}
    client = {key: table.pop(key) for key in _CLIENT_KEYS if key in table}
    env_files = [
        *_env_files("env_file", client.get("env_file", []), problems),
        *_env_files("env_files", client.get("env_files", []), problems),
    ]
    if "source_ref" in client and not is_stored:
        problems.append(_SOURCE_REF)
    if table.get("type") == "rl":
        del table["type"]
    return (
        DispatchKeys(
            image_tag=flags.image_tag or texts.get("image_tag") or DEFAULT_IMAGE_TAG,
            gpu_type=flags.gpu_type or texts.get("gpu_type"),
            volume=flags.volume or texts.get("volume"),
            volume_size=flags.volume_size or texts.get("volume_size"),
            name=flags.name,
            env_files=tuple(env_files),
        ),
        notices,
        problems,
    )


def _text(key: str, value: object, problems: list[Problem]) -> str | None:
    if isinstance(value, str) and value.strip() == value and value:
        return value
    shown = f"not {value!r:.40}" if isinstance(value, bool | int | float | str) else "not a table"
    problems.append(
        Problem(
            loc=(key,),
            message=f"{key} must be a text, {shown}",
            fix=f'for example {key} = "{_EXAMPLES[key]}"',
            code="type",
        )
    )
    return None


_EXAMPLES = {
    "image_tag": DEFAULT_IMAGE_TAG,
    "gpu_type": "H200_141GB",
    "volume": "my-volume",
    "volume_size": "1Ti",
}


def _env_files(key: str, value: object, problems: list[Problem]) -> list[EnvFile]:
    if isinstance(value, str):
        return [EnvFile(loc=(key,), path=value)]
    items = value if isinstance(value, list) else [value]
    files = [
        EnvFile(loc=(key, index), path=item)
        for index, item in enumerate(items)
        if isinstance(item, str)
    ]
    if len(files) == len(items):
        return files
    problems.append(
        Problem(loc=(key,), message=f"{key} must be a path or a list of paths", code="type")
    )
    return []
