"""The rules for a run's secrets, and the readers of the three ways in which values enter.

Values enter as a Pulumi secret (`paddock:env`), a 0600 file, or `-e`; here they are read and
judged. Messages name keys, never values. Where the values go is the target's matter.
"""

import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime import limits
from runtime.errors import Problem, SettingsError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def secret_problems(values: Mapping[str, str]) -> list[Problem]:
    """Return every rule that the secrets of a run break; empty when they are fine."""
    problems = []
    if len(values) > limits.MAX_SECRETS_PER_RUN:
        problems.append(
            _problem(f"{len(values)} entries, at most {limits.MAX_SECRETS_PER_RUN} are allowed")
        )
    for name, value in values.items():
        problems += _name_problems(name) + _value_problems(name, value)
    total = sum(map(_num_bytes, values.values()))
    if total > limits.MAX_SECRETS_TOTAL_BYTES:
        problems.append(
            _problem(
                f"{total} bytes in total, at most {limits.MAX_SECRETS_TOTAL_BYTES} are allowed"
            )
        )
    return problems


def read_env_file(path: Path) -> dict[str, str]:
    """Return the KEY=VALUE lines of a file that only its owner may read.

    Blank lines and lines that start with # are skipped; a value is taken as it stands, one pair of
    enclosing quotes removed. Raises SettingsError for a missing or readable-by-others file and for
    a line that is not KEY=VALUE, naming its number only: it may be the rest of a wrapped value.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise SettingsError([_problem(f"env file {path}: {reason}")]) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingsError(
            [_problem(f"env file {path} can be read by others", fix=f"chmod 600 {path}")]
        )
    values = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        given, separator, value = line.partition("=")
        name = given.strip().removeprefix("export ").strip()
        if not separator or _spelling_problems(name):
            raise SettingsError(
                [
                    _problem(
                        f"env file {path}, line {number}: not KEY=VALUE with a name of A-Z, a-z, "
                        f"0-9, _ and at most {limits.MAX_SECRET_NAME_CHARS} characters",
                        fix="write a value on one line",
                    )
                ]
            )
        values[name] = _unquote(value)
    return values


def read_env_flags(flags: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of `-e KEY` (read from the environment) and `-e KEY=VALUE`.

    Raises SettingsError for a KEY that the environment lacks.
    """
    values = {}
    problems = []
    for flag in flags:
        name, separator, value = flag.partition("=")
        if separator:
            values[name] = value
        elif name in environ:
            values[name] = environ[name]
        else:
            problems.append(
                _problem(
                    f"-e {name}: not set in this shell", fix=f"export {name}, or -e {name}=VALUE"
                )
            )
    if problems:
        raise SettingsError(problems)
    return values


def _name_problems(name: str) -> list[Problem]:
    if problems := _spelling_problems(name):
        return problems
    if is_reserved(name):
        return [_problem(f"{name} is reserved by the launcher", fix="choose another name")]
    return []


def _spelling_problems(name: str) -> list[Problem]:
    if len(name) > limits.MAX_SECRET_NAME_CHARS:
        shown = f"{name[:24]}..."
        return [
            _problem(
                f"{shown}: {len(name)} characters, a name has at most "
                f"{limits.MAX_SECRET_NAME_CHARS}"
            )
        ]
    if not _NAME.fullmatch(name):
        return [_problem(f"{name!r} is not an environment variable name: A-Z, a-z, 0-9, _")]
    return []


def is_reserved(name: str) -> bool:
    """Tell whether a variable belongs to the launcher or the loader and cannot be a secret."""
    upper = name.upper()
    return upper in limits.RESERVED_SECRET_NAMES or upper.startswith(
        limits.RESERVED_SECRET_PREFIXES
    )


def _value_problems(name: str, value: str) -> list[Problem]:
    problems = []
    size = _num_bytes(value)
    if size > limits.MAX_SECRET_VALUE_BYTES:
        problems.append(
            _problem(f"{name[:24]}: value of {size} bytes, at most {limits.MAX_SECRET_VALUE_BYTES}")
        )
    if "\0" in value:
        problems.append(_problem(f"{name[:24]}: value holds a NUL byte"))
    try:
        value.encode()
    except UnicodeEncodeError:
        problems.append(_problem(f"{name[:24]}: value is not UTF-8 text"))
    return problems


def _num_bytes(value: str) -> int:
    """Return the size of a value, which may hold a half of a surrogate pair: JSON can write one."""
    return len(value.encode(errors="surrogatepass"))


def _unquote(value: str) -> str:
    stripped = value.strip()
    if len(stripped) >= 2 and stripped[0] == stripped[-1] and stripped[0] in "'\"":
        return stripped[1:-1]
    return value


def _problem(message: str, *, fix: str = "") -> Problem:
    return Problem(loc=("env",), message=message, fix=fix, code="secret")
