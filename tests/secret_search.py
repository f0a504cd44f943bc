"""Looks for a secret's value where it must not be: in bytes, in files, in the rows of a database.

Plain, in hexadecimal, in any alignment of base64, and in what gzip or zstd makes of it, which is
how captured text is kept.
"""

import base64
import zlib
from pathlib import Path

from sqlalchemy import Engine, text
from zstandard import ZstdDecompressor, ZstdError

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OF_GZIP = zlib.MAX_WBITS | 16
_PIECE_BYTES = 64 << 10
_TABLES = text(
    "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p', 'm') AND c.relpersistence <> 't'"
)


def has_value(data: bytes, value: str) -> bool:
    """Tell whether the value of a secret is in bytes, or in what they are the compressed form of.

    Of data that is cut off or damaged, what can be read is looked at.
    """
    if any(spelling in data for spelling in _spellings(value.encode())):
        return True
    inner = _decompressed(data)
    return bool(inner) and has_value(inner, value)


def files_with_value(folder: Path, value: str) -> list[Path]:
    """Return the files under a folder that hold a value; a folder without files is an error."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files, f"nothing in {folder}"
    return [path for path in files if has_value(_bytes(path), value)]


def tables_with_value(engine: Engine, value: str) -> list[str]:
    """Return the tables of a Postgres database, of all its schemas, that hold a value in a row."""
    found = []
    with engine.connect() as connection:
        for table in connection.scalars(_TABLES).all():
            rows = connection.scalars(text(f"SELECT one::text FROM {table} AS one"))
            if any(has_value(row.encode(), value) for row in rows):
                found.append(table)
    return found


def _spellings(value: bytes) -> list[bytes]:
    found = [value, value.hex().encode()]
    for offset in range(3):
        start = -(-offset * 8 // 6)  # the bytes before have a part in the characters up to here
        found.append(base64.b64encode(b"\0" * offset + value)[start:-4])
    return found


def _decompressed(data: bytes) -> bytes:
    """Return what compressed data holds, all its members or frames; nothing of other data."""
    found = b""
    while data.startswith((_GZIP, _ZSTD)):
        is_gzip = data.startswith(_GZIP)
        member = zlib.decompressobj(_OF_GZIP) if is_gzip else ZstdDecompressor().decompressobj()
        for start in range(0, len(data), _PIECE_BYTES):  # what comes before the damage is read
            try:
                found += member.decompress(data[start : start + _PIECE_BYTES])
            except (zlib.error, ZstdError):
                return found
            if member.eof:
                data = member.unused_data + data[start + _PIECE_BYTES :]
                break
        else:
            return found
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # it was temporary
        return b""
