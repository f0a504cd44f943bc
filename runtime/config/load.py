"""Read a run's TOML: a resolved config with notices, or one error with every problem.

`load_config` and `read_config_file` read what enters; `load_stored_config` what was accepted.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.config.derive import derive
from runtime.config.dispatch import DispatchFlags, DispatchKeys, take_dispatch_keys
from runtime.config.notices import Notice
from runtime.config.remarks import remarks
from runtime.config.rl import RLConfig
from runtime.config.rules import broken_rules
from runtime.config.shared import copy_shared
from runtime.config.spellings import Origins, apply_spellings
from runtime.config.toml_text import UnreadableError, decode, infinite_fields, parse, read_file
from runtime.config.validate import MAX_PROBLEMS, validate
from runtime.errors import ConfigError, Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedConfig:
    """A config that is well formed: as written, as resolved, and what is to be said about it."""

    text: str
    digest: str
    config: RLConfig
    dispatch: DispatchKeys
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """How a text is read; one that `is_stored` was accepted before."""

    source: str
    flags: DispatchFlags
    secret_names: frozenset[str]
    allow_unknown_fields: bool
    is_stored: bool = False


def load_config(
    text: str | bytes,
    *,
    source: str = "rl.toml",
    flags: DispatchFlags = DispatchFlags(),  # noqa: B008 - frozen
    secret_names: frozenset[str] = frozenset(),
    allow_unknown_fields: bool = False,
) -> LoadedConfig:
    """Return the config that a text holds. Raises ConfigError with every problem found in it."""
    reading = _Reading(
        source=source,
        flags=flags,
        secret_names=secret_names,
        allow_unknown_fields=allow_unknown_fields,
    )
    return _load(text, reading)


def load_stored_config(
    text: str | bytes,
    *,
    source: str = "rl.toml",
    flags: DispatchFlags = DispatchFlags(),  # noqa: B008 - frozen
    secret_names: frozenset[str] = frozenset(),
    allow_unknown_fields: bool = False,
) -> LoadedConfig:
    """Return the config of a run that exists, perhaps of an earlier release; as `load_config`.

    What nobody may bring in (`rules.credentials`, `rules.names`) passes, since its config cannot be
    changed.
    """
    reading = _Reading(
        source=source,
        flags=flags,
        secret_names=secret_names,
        allow_unknown_fields=allow_unknown_fields,
        is_stored=True,
    )
    return _load(text, reading)


def _load(text: str | bytes, reading: _Reading) -> LoadedConfig:
    source, flags = reading.source, reading.flags
    try:
        read = decode(text)
        table = parse(read)
    except UnreadableError as error:
        raise ConfigError([error.problem], source=source) from None
    digest = hashlib.sha256(read.encode()).hexdigest()
    infinite = [Problem(loc=path, message="").path for path in infinite_fields(table)]
    dispatch, unused, problems = take_dispatch_keys(table, flags, is_stored=reading.is_stored)
    origins = Origins()
    notices, conflicts = apply_spellings(table, origins)
    problems += conflicts + copy_shared(table, origins)
    outcome = validate(table, origins, allow_unknown_fields=reading.allow_unknown_fields)
    problems += outcome.problems.values()
    config = outcome.config
    if config is not None:
        if flags.name:
            config.run.name = flags.name
            origins.written[("run", "name")] = ("name",)
        problems += [
            replace(problem, loc=origins.path(problem.loc))
            for problem in broken_rules(config, outcome.dropped, is_stored=reading.is_stored)
        ]
    if problems or config is None:
        problems += outcome.unknown
        raise ConfigError(_bounded(problems, outcome.num_unsaid), source=source)
    notices += unused
    notices += [
        Notice(code="unknown_key", path=problem.path, message="unknown key, passed on unread")
        for problem in outcome.unknown
    ]
    notices += remarks(config, secret_names=reading.secret_names, infinite=infinite)
    derive(config, digest=digest)
    return LoadedConfig(
        text=read,
        digest=digest,
        config=config,
        dispatch=replace(dispatch, name=config.run.name),
        notices=tuple(notices),
    )


def read_config_file(
    path: str | Path,
    *,
    flags: DispatchFlags = DispatchFlags(),  # noqa: B008 - frozen
    secret_names: frozenset[str] = frozenset(),
    allow_unknown_fields: bool = False,
) -> LoadedConfig:
    """Return the config of a file. Raises ConfigError, for a file that cannot be read too."""
    return load_config(
        read_config_bytes(path),
        source=str(path),
        flags=flags,
        secret_names=secret_names,
        allow_unknown_fields=allow_unknown_fields,
    )


def read_config_bytes(path: str | Path) -> bytes:
    """Return what a config's file holds. Raises ConfigError for one that cannot be read."""
    try:
        return read_file(Path(path))
    except UnreadableError as error:
        raise ConfigError([error.problem], source=str(path)) from None


def _bounded(problems: list[Problem], num_unsaid: int) -> list[Problem]:
    """Return each problem once, and the number of those that are too many to read."""
    once = list(dict.fromkeys(problems))
    num_unsaid += max(0, len(once) - MAX_PROBLEMS)
    if num_unsaid == 0:
        return once
    more = Problem(message=f"and {num_unsaid} further problems", code="further")
    return [*once[:MAX_PROBLEMS], more]
