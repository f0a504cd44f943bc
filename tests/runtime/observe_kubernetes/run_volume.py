"""Run directories as the file server gives them, from a dict; it can be away."""

from runtime.observe.kubernetes.run_files import (
    MAX_READ_BYTES,
    FilesUnavailableError,
    Piece,
    RunFiles,
)


class RunVolume(RunFiles):
    """Files by `run/path`, which tests append to."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self.files: dict[str, bytes] = {}
        self.is_away = False
        self.num_reads = 0

    def read(
        self, run_id: str, path: str, *, offset: int = 0, limit: int = MAX_READ_BYTES
    ) -> Piece | None:
        """Return a piece as the server does."""
        data = self._data(run_id, path)
        return None if data is None else Piece(data[offset : offset + limit], offset, len(data))

    def tail(self, run_id: str, path: str, *, num_lines: int) -> Piece | None:
        """Return the last lines as the server does."""
        data = self._data(run_id, path)
        if data is None:
            return None
        last = b"".join(data.splitlines(keepends=True)[-num_lines:])
        return Piece(last, len(data) - len(last), len(data))

    def names(self, run_id: str, folder: str) -> list[str]:
        """Return the names in a folder."""
        self._data(run_id, folder)
        prefix = f"{run_id}/{folder}/"
        found = {one.removeprefix(prefix).split("/")[0] for one in self.files if prefix in one}
        return sorted(found)

    def _data(self, run_id: str, path: str) -> bytes | None:
        self.num_reads += 1
        if self.is_away:
            raise FilesUnavailableError("the file server does not answer")
        return self.files.get(f"{run_id}/{path}")
