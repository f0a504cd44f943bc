"""The file of `paddock train FILE`, and what the client reads of it: the dispatch keys.

All else in it is the server's to judge; here it is judged only where something is made before the
server sees it.
"""

from dataclasses import dataclass
from pathlib import Path

from runtime.config import DispatchFlags, DispatchKeys, load_config
from runtime.config.dispatch import take_dispatch_keys
from runtime.config.toml_text import UnreadableError, parse
from runtime.errors import ConfigError, Problem, SettingsError
from runtime.secret_rules import read_env_file


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFile:
    """A file as it stands, and its dispatch keys under the flags, which win."""

    path: Path
    text: str
    keys: DispatchKeys

    def check(self) -> None:
        """Raise ConfigError with every problem but fields that are unknown here: a server tells."""
        load_config(self.text, source=str(self.path), allow_unknown_fields=True)

    def secrets(self) -> dict[str, str]:
        """Return the values of `env_file` and `env_files`, which lie beside the file.

        Raises SettingsError, which names fields, files and keys only.
        """
        values: dict[str, str] = {}
        problems: list[Problem] = []
        for file in self.keys.env_files:
            try:
                values |= read_env_file(self.path.parent / file.path)
            except SettingsError as error:
                problems += [
                    Problem(loc=file.loc, message=one.message, fix=one.fix, code=one.code)
                    for one in error.problems
                ]
        if problems:
            raise SettingsError(problems, source=str(self.path))
        return values


def read_run_file(path: Path, text: str, flags: DispatchFlags) -> RunFile:
    """Return the file of a dispatch. Raises ConfigError for what no server takes."""
    try:
        keys, _, problems = take_dispatch_keys(parse(text), flags)
    except UnreadableError as error:
        raise ConfigError([error.problem], source=str(path)) from None
    file = RunFile(path=path, text=text, keys=keys)
    if problems:
        file.check()  # raises them with all others
    if keys.volume_size is not None and keys.volume is None:
        fix = 'name the volume: --volume NAME, or volume = "NAME" in the file'
        problem = Problem(loc=("volume_size",), message="it is that of no volume", fix=fix)
        raise SettingsError([problem], source=str(path))
    return file
