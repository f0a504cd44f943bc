"""Rollouts of a step: pages of them, and histograms of what they are worth.

All that were delivered are read, also those whose advantage is zero: they are part of the picture.
Arrays of one number a token are left out: they are for a trainer, and make most of the bytes.
"""

import json
import logging
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from runtime.checkpoints import steps_of
from runtime.control.readings import SamplePage
from runtime.control.run_source import RunSource

Row = dict[str, JsonValue]

_FOLDER = "rollouts"
_KINDS = ("all", "effective")
_READ = 4 << 20
_MAX_LINE_BYTES = 64 << 20
_MAX_PAGE_BYTES = 64 << 20
MAX_FILE_BYTES = 2 << 30
"""What is read of a file of rollouts: a sparse one may have any size."""

_NUM_CHECKED = 3
_LOG = logging.getLogger(__name__)
_TOKEN_KEYS = frozenset(
    {
        "token_ids",
        "renderer_token_ids",
        "mask",
        "is_content",
        "logprobs",
        "advantages",
        "reference_logprobs",
        "trainer_logprobs",
        "entropies",
        "loss_weights",
        "routed_experts",
        "sampling_mask",
    }
)
"""Source: the fields of a node of a trace, verifiers 0.4."""


def rollout_steps(source: RunSource) -> tuple[int, ...]:
    """Return the steps that have a folder of rollouts, ascending."""
    return tuple(steps_of(entry.name for entry in source.entries(_FOLDER) if entry.is_dir))


def steps_with_traces(source: RunSource) -> tuple[int, ...]:
    """Return the steps that have rollouts to read, ascending."""
    steps = rollout_steps(source)
    # only the newest may be without: its batch is there before its traces are
    newest = steps[-_NUM_CHECKED:]
    return (*steps[: -len(newest) or None], *(s for s in newest if traces_path(source, s)))


def traces_path(source: RunSource, step: int, split: str = "train") -> str | None:
    """Return the file of a step's rollouts, None where there is none."""
    for kind in _KINDS:
        path = f"{_FOLDER}/step_{step}/{split}/{kind}/traces.jsonl"
        if source.size(path) is not None:
            return path
    return None


def read_samples(source: RunSource, step: int, *, offset: int, limit: int) -> SamplePage:
    """Return a page of a step's rollouts; fewer than `limit` where they are very large."""
    path = traces_path(source, step)
    if path is None:
        return SamplePage(samples=(), total=0)
    total, num_bytes = 0, 0
    samples: list[Mapping[str, JsonValue]] = []
    for line in _lines(source, path):
        is_on_page = offset <= total < offset + limit
        total += 1
        if not is_on_page or num_bytes > _MAX_PAGE_BYTES:
            continue
        row = read_row(line)
        if row is not None:
            num_bytes += len(line)
            samples.append(_without_tokens(row))
    return SamplePage(samples=samples, total=total)


def read_rows(source: RunSource, step: int) -> Iterator[Row]:
    """Yield the rollouts of a step."""
    path = traces_path(source, step)
    if path is not None:
        yield from read_rows_of(source, path)


def read_rows_of(source: RunSource, path: str) -> Iterator[Row]:
    """Yield the rollouts of a file, one at a time."""
    yield from (row for line in _lines(source, path) if (row := read_row(line)) is not None)


def _lines(source: RunSource, path: str) -> Iterator[bytes]:
    """Yield the lines of a file that are not empty; b"" for one that is too long to be kept."""
    offset, length, num_long = 0, 0, 0
    torn: list[bytes] = []
    while offset < MAX_FILE_BYTES and (data := source.read(path, offset, _READ)):
        offset += len(data)
        first, *others = data.split(b"\n")
        num_long += length <= _MAX_LINE_BYTES < length + len(first)
        length += len(first)
        torn = [*torn, first] if length <= _MAX_LINE_BYTES else []
        if not others:
            continue
        if length:
            yield b"".join(torn)
        *whole, last = others
        yield from (line for line in whole if line)
        torn, length = [last], len(last)
    if length:
        yield b"".join(torn)
    if num_long or offset >= MAX_FILE_BYTES:
        what = "%s: %d lines of over %d MiB are left out, and what comes after %d MiB"
        sizes = num_long, _MAX_LINE_BYTES >> 20, MAX_FILE_BYTES >> 20
        _LOG.info(what, source.url(path), *sizes)


def read_row(line: bytes) -> Row | None:
    """Return a line of JSON as an object, None for one that is torn, none, or nested too deep."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_tokens(row: Row) -> Row:
    nodes = row.get("nodes")
    if not isinstance(nodes, list):
        return row
    kept: list[JsonValue] = [
        {key: value for key, value in node.items() if key not in _TOKEN_KEYS}
        if isinstance(node, dict)
        else node
        for node in nodes
    ]
    return {**row, "nodes": kept}
