"""From the bytes of a file to a table, with one clear error for whatever cannot be read.

Guards against input made to hurt: size, depth and integers are bounded before anything recursive
sees them. Nothing here knows prime-rl's schema.
"""

import re
import tomllib
from collections.abc import Iterator
from math import isinf
from pathlib import Path
from typing import Any

from runtime.errors import Problem
from runtime.limits import MAX_CONFIG_BYTES

MAX_DEPTH = 32  # the schema itself needs 9
MAX_INTEGER = 2**63 - 1  # TOML 1.0, "Integer"
_BOUNDS = (("lines", "\n", 10_000), ("values", "=", 10_000), ("entries", ",", 20_000))

Table = dict[str, Any]  # a parsed TOML table: values of any TOML type

_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY = re.compile(rf"(?<![\w.-])(?:{_KEY_PART}[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}")
_LONG_INTEGER = re.compile(r"^[ \t]*([^\s=#]+)[ \t]*=[ \t]*[+-]?[0-9_]{4000,}", re.MULTILINE)
_POSITION = re.compile(r"line (\d+), column (\d+)")
_WORDS = (
    ("true", "True"),
    ("false", "False"),
    ('the text "None"', "None"),
    ('the text "None"', "null"),
)


class UnreadableError(Exception):
    """The input is no table; carries the one problem that says why."""

    def __init__(self, message: str, *, fix: str = "", code: str = "toml") -> None:
        """Keep the problem."""
        self.problem = Problem(message=message, fix=fix, code=code)
        super().__init__(message)


def read_file(path: Path) -> bytes:
    """Return the bytes of a file. Raises UnreadableError with the reason."""
    try:
        if path.is_dir():
            raise UnreadableError(f"{path} is a directory", fix="give the TOML file", code="file")
        with path.open("rb") as file:
            return file.read(MAX_CONFIG_BYTES + 1)
    except FileNotFoundError:
        raise UnreadableError(
            f"there is no file {path}", fix="check the path", code="file"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableError(f"cannot read {path}: {reason}", code="file") from None


def decode(data: bytes | str) -> str:
    """Return the text of a file's bytes. Raises UnreadableError for size, encoding, BOM and NUL."""
    if isinstance(data, str):
        data = data.encode("utf-8", errors="surrogatepass")
    if len(data) > MAX_CONFIG_BYTES:
        raise UnreadableError(
            f"the file's size is over the limit of {MAX_CONFIG_BYTES:,} bytes",
            fix="remove comments and data; files belong on a volume",
            code="size",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableError("the file is UTF-16, TOML is UTF-8", fix="save it as UTF-8")
    if data.startswith(b"\xef\xbb\xbf"):
        raise UnreadableError(
            "line 1, column 1: the file starts with a byte order mark (UTF-8 BOM)",
            fix='save it as "UTF-8 without BOM"',
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode("utf-8", errors="replace"))
        raise UnreadableError(
            f"line {line}, column {column}: the file is not UTF-8 text", fix="save it as UTF-8"
        ) from None
    if "\0" in text:
        line, column = _place(text[: text.index("\0")])
        raise UnreadableError(f"line {line}, column {column}: a NUL byte", fix="remove it")
    return text


def parse(text: str) -> Table:
    """Return the table that a text holds. Raises UnreadableError with line and column."""
    for name, mark, limit in _BOUNDS:
        if text.count(mark) > limit:
            raise UnreadableError(f"the file has more than {limit:,} {name}", code="size")
    deep = _DEEP_KEY.search(text)
    if deep:
        line, column = _place(text[: deep.start()])
        raise UnreadableError(
            f"line {line}, column {column}: a key nested deeper than {MAX_DEPTH} levels"
        )
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(**_syntax(text, str(error))) from None
    except RecursionError:
        raise UnreadableError(f"values nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise UnreadableError(_odd_value(text, error)) from None
    for path, value in _leaves(table):
        if len(path) > MAX_DEPTH:
            raise UnreadableError(f"{path[0]}: values nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise UnreadableError(f"{_dotted(path)}: the integer has more than 64 bits")
    return table


def infinite_fields(table: Table) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every float that is infinite."""
    for path, value in _leaves(table):
        if isinstance(value, float) and isinf(value):
            yield path


def _leaves(table: Table) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), table)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict) and value and len(path) <= MAX_DEPTH:
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list) and value and len(path) <= MAX_DEPTH:
            stack.extend(((*path, index), item) for index, item in enumerate(value))
        else:
            yield path, value


def _dotted(path: tuple[str | int, ...]) -> str:
    return Problem(loc=path, message="").path


def _place(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _syntax(text: str, message: str) -> dict[str, str]:
    found = _POSITION.search(message)
    line, column = (int(found[1]), int(found[2])) if found else _place(text)
    reason = message.split(" (at ")[0]
    return {
        "message": f"line {line}, column {column}: not TOML: {reason}{_table_named(text, line)}",
        "fix": _syntax_fix(text.split("\n")[line - 1] if text else ""),
    }


def _table_named(text: str, line: int) -> str:
    """Name the header that a message about a table declared twice points behind."""
    for candidate in reversed(text.split("\n")[:line]):
        header = re.match(r"\s*\[\[?\s*([\w.\- \"']{1,80})\]", candidate)
        if header:
            return f" (in [{header[1].strip()}])"
    return ""


def _syntax_fix(line: str) -> str:
    if any(quote in line for quote in "\u2018\u2019\u201c\u201d"):
        return "typographic quotes: write straight ones"
    if re.match(r"\s*[\w-]+\s*:(\s|$)", line):
        return "this looks like YAML: TOML writes key = value and [table]"
    for right, wrong in _WORDS:
        if re.search(rf"=\s*{wrong}\b", line):
            return f"write {right} instead of {wrong}"
    return ""


def _odd_value(text: str, error: ValueError) -> str:
    found = _LONG_INTEGER.search(text)
    if found:
        line, column = _place(text[: found.start(1)])
        return f"line {line}, column {column}: {found[1][:80]}: the integer has more than 64 bits"
    return f"a value cannot be read: {str(error)[:80]}"
