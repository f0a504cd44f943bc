"""What a user should know about a file that is accepted."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One remark on a config: a stable code, the dotted path that it is about, a sentence."""

    code: str
    path: str
    message: str

    def __str__(self) -> str:
        """Return the notice on one line."""
        return f"{self.path}: {self.message}" if self.path else self.message
