"""Logs of a run's components: from the run directory, and from the API where that does not answer.

The run directory's files outlive the pods and hold every attempt; the API has the log of a pod that
is still there. What a line means is `runtime.observe.log_filter`, as on the local target.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath

from runtime.errors import NotFoundError
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from runtime.observe.kubernetes.run_files import FilesUnavailableError, RunFiles
from runtime.observe.log_filter import filter_lines, plain
from runtime.observe.logs import LogQuery, index_offset

_FOLLOW_S = 0.5
_MAX_LINE_BYTES = 1 << 20
_MAX_TAIL_LINES = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class LogPlace:
    """Where a component's log is: below the run directory, and in which container of which pod."""

    run_id: str
    path: str
    pod: str = ""
    container: str = "main"


class ClusterLogs:
    """Reads and follows logs; `say` gets a line where the API must stand in for the files."""

    def __init__(self, api: KubernetesApi, files: RunFiles, say: Callable[[str], None]) -> None:
        """Read through these."""
        self._api = api
        self._files = files
        self._say = say

    def read(self, place: LogPlace, query: LogQuery) -> list[str]:
        """Return the wanted lines, oldest first; none where nothing was written yet."""
        try:
            lines = self._unshown_lines(place, query, is_followed=False)
            lines = self._file_lines(place, query) if lines is None else lines
            return list(deque(filter_lines(lines, query.wanted), maxlen=query.tail))
        except FilesUnavailableError as error:
            lines = self._pod_lines(place, query, is_followed=False, why=error)
            return list(deque(filter_lines(lines, query.wanted), maxlen=query.tail))

    def follow(
        self, place: LogPlace, query: LogQuery, *, is_over: Callable[[], bool]
    ) -> Iterator[str]:
        """Yield the wanted lines, then each new one as it comes, until the run is over."""
        try:
            lines = self._unshown_lines(place, query, is_followed=True)
            if lines is not None:
                yield from filter_lines(lines, query.wanted)
                return
            size = self._size(place)
            yield from deque(
                filter_lines(self._file_lines(place, query, end=size), query.wanted),
                maxlen=query.tail,
            )
        except FilesUnavailableError as error:
            lines = self._pod_lines(place, query, is_followed=True, why=error)
            yield from filter_lines(lines, query.wanted)
            return
        yield from filter_lines(self._new_lines(place, size, is_over), query.wanted)

    def last_lines(self, place: LogPlace, num_lines: int) -> list[str]:
        """Return the last lines of a log, from wherever they can be had; none where nowhere."""
        try:
            piece = self._files.tail(place.run_id, place.path, num_lines=num_lines)
            if piece is not None and place.path:
                return _whole(piece.data)[-num_lines:]
        except FilesUnavailableError:
            pass
        if not place.pod:
            return []
        try:
            pieces = self._api.pod_log(place.pod, container=place.container, tail=num_lines)
            return list(split_lines(pieces))[-num_lines:]
        except KubernetesError:
            return []

    def _unshown_lines(
        self, place: LogPlace, query: LogQuery, *, is_followed: bool
    ) -> Iterator[str] | None:
        """Return the pod's lines where the file server has no logs of the run, else None.

        Its volume may be none that the server shows. None too while the pod has no log either,
        since its run directory is then still to come. Raises FilesUnavailableError.
        """
        folder = str(PurePosixPath(*PurePosixPath(place.path).parts[:2]))  # of the attempt
        if self._files.names(place.run_id, folder):
            return None
        why = FilesUnavailableError(
            f"no file server shows logs of {place.run_id}: none yet, or that of its volume "
            "does not run"
        )
        if not place.pod:
            self._say(str(why))
            return None
        lines = self._pod_lines(place, query, is_followed=is_followed, why=why)
        try:
            first = next(lines)
        except (KubernetesError, StopIteration):
            return None
        return chain([first], lines)

    def _size(self, place: LogPlace) -> int:
        """Return the offset after the last whole line; a torn one is left to the follower."""
        piece = self._files.read(place.run_id, place.path, limit=1)
        if piece is None or piece.size == 0:
            return 0
        start = max(0, piece.size - _MAX_LINE_BYTES)
        tail = self._files.read(place.run_id, place.path, offset=start)
        return start if tail is None else start + tail.data.rfind(b"\n") + 1

    def _file_lines(
        self, place: LogPlace, query: LogQuery, *, end: int | None = None
    ) -> Iterator[str]:
        """Yield the lines of a file from where the query begins, up to its present end."""
        start = 0
        if query.since is not None:
            start = self._since(place, query.since)
        elif query.tail is not None and query.tail <= _MAX_TAIL_LINES and _is_plain(query):
            piece = self._files.tail(place.run_id, place.path, num_lines=max(1, query.tail))
            start = piece.offset if piece is not None else 0
        yield from split_lines(self._pieces(place, start, end))

    def _since(self, place: LogPlace, since: float) -> int:
        index = b"".join(self._pieces(LogPlace(run_id=place.run_id, path=f"{place.path}.idx"), 0))
        offset = index_offset(index.decode(errors="replace"), since)
        if offset is not None:
            return offset
        piece = self._files.read(place.run_id, place.path, limit=1)
        return piece.size if piece is not None and index else 0

    def _pieces(self, place: LogPlace, start: int, end: int | None = None) -> Iterator[bytes]:
        while end is None or start < end:
            limit = _MAX_LINE_BYTES if end is None else min(_MAX_LINE_BYTES, end - start)
            piece = self._files.read(place.run_id, place.path, offset=start, limit=limit)
            if piece is None or not piece.data:
                return
            end = piece.size if end is None else end
            start += len(piece.data)
            yield piece.data

    def _new_lines(self, place: LogPlace, start: int, is_over: Callable[[], bool]) -> Iterator[str]:
        """Yield what is appended; a file server that is away for a while loses nothing."""
        torn = b""
        while True:
            over = is_over()  # asked before the read, so that this round reads what came before
            try:
                for data in self._pieces(place, start):
                    start += len(data)
                    *whole, torn = (torn + data).split(b"\n")
                    yield from (plain(line.decode(errors="replace")) for line in whole)
                    torn = torn[-_MAX_LINE_BYTES:]
            except FilesUnavailableError as error:
                if over:
                    self._say(f"the end of the log cannot be read: {error}")
                    return
            if over:
                break
            time.sleep(_FOLLOW_S)
        if torn:
            yield plain(torn.decode(errors="replace"))

    def _pod_lines(
        self, place: LogPlace, query: LogQuery, *, is_followed: bool, why: FilesUnavailableError
    ) -> Iterator[str]:
        if not place.pod:
            raise NotFoundError(f"{place.path}: {why}; and its pod is not there to be asked")
        self._say(f"{why}: reading the log of pod {place.pod} instead")
        # node clocks differ: `sinceSeconds` is measured on the node's, so some more is asked for
        since = None if query.since is None else max(1, int(time.time() - query.since) + 5)
        pieces = self._api.pod_log(
            place.pod,
            container=place.container,
            tail=query.tail if _is_plain(query) else None,
            since_seconds=since,
            follow=is_followed,
        )
        yield from split_lines(pieces)


def split_lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines in pieces of bytes, readable; a line of more than 1 MiB is cut there."""
    torn = b""
    for data in pieces:
        *whole, torn = (torn + data).split(b"\n")
        yield from (plain(line.decode(errors="replace")) for line in whole)
        while len(torn) > _MAX_LINE_BYTES:
            yield plain(torn[:_MAX_LINE_BYTES].decode(errors="replace"))
            torn = torn[_MAX_LINE_BYTES:]
    if torn:
        yield plain(torn.decode(errors="replace"))


def _whole(data: bytes) -> list[str]:
    return list(split_lines([data]))


def _is_plain(query: LogQuery) -> bool:
    """Tell whether every line is wanted, so that the last N of the file are the last N wanted."""
    return query.wanted.level is None and query.wanted.search is None
