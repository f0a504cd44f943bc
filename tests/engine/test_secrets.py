"""A canary value goes into a run in all three ways; it is in its components and nowhere else."""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.local_state import LocalRun
from runtime.observe.local import observe
from runtime.states import RunState
from tests.engine.sites import COMPONENTS, Site
from tests.waiting import wait_for

pytestmark = pytest.mark.engine

RUN = "secretive"
VALUES = {
    "CANARY_FLAG": "canary-flag-8c55f1e0\n",
    "CANARY_DIGITS": "009081726354",
    "CANARY_FILE": "canary-file-1d0ab327",
    "CANARY_PATH": "canary-path-77f0e2c9\nwith a second line ",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Secretive:
    """The live run, and everything that commands printed about it."""

    site: Site
    run: LocalRun
    printed: str


@pytest.fixture(scope="module")
def live(shared_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secretive]:
    """Yield a live run that was given the values."""
    site = shared_site
    env_file = tmp_path_factory.mktemp("secrets") / "env"
    env_file.touch(0o600)
    env_file.write_text(f"CANARY_FILE={VALUES['CANARY_FILE']}\n")
    toml = site.write_toml(RUN, "long")
    printed = []

    def run(*command: str, stdin: str | None = None, **extra: str) -> None:
        printed.append(site.run(*command, stdin=stdin, expect=0, **extra).text)

    given = {name: VALUES[name] for name in ("CANARY_FLAG", "CANARY_DIGITS")}
    flags = [word for name in given for word in ("-e", name)]
    run("paddock", "stack", "new", RUN, toml.name, *flags, **given)
    run("pulumi", "config", "set", "paddock:envFile", str(env_file), "-s", RUN)
    secret = ("config", "set", "--secret", "--path", "paddock:env.CANARY_PATH", "-s", RUN)
    run("pulumi", *secret, stdin=VALUES["CANARY_PATH"])
    run("pulumi", "preview", "--diff", "-s", RUN)
    run("pulumi", "up", "--yes", "--diff", "-s", RUN)
    run("pulumi", "stack", "export", "-s", RUN)
    run("pulumi", "stack", "output", "--json", "-s", RUN)
    run("pulumi", "preview", "--diff", "-s", RUN)
    site.until(RUN, RunState.RUNNING)
    yield Secretive(site=site, run=site.local_run(RUN), printed="".join(printed))
    env_file.unlink()
    site.pulumi("destroy", "-s", RUN)
    site.assert_nothing_left()


def spellings() -> list[bytes]:
    """Return what to look for: each value plain and in the three alignments of base64."""
    found = []
    for value in VALUES.values():
        text = value.partition("\n")[0].encode()
        found.append(text)
        for offset in range(3):
            start = -(-offset * 8 // 6) if offset else 0
            encoded = base64.b64encode(b"\0" * offset + text)
            found.append(encoded[start + 1 : -4])
    return found


def holds(data: bytes) -> bool:
    return any(spelling in data for spelling in spellings())


def files_with_a_value(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files, f"nothing in {folder}"
    return [path for path in files if holds(path.read_bytes())]


def test_the_values_are_what_is_looked_for() -> None:
    both = "".join(VALUES.values()).encode()

    assert holds(both)
    assert all(
        holds(base64.b64encode(b"x" * n + value.encode()))
        for n in range(3)
        for value in VALUES.values()
    )
    assert not holds(b"nothing of the kind")


def test_all_four_kinds_of_component_have_every_value(live: Secretive) -> None:
    digests = {
        f"{name} {hashlib.sha256(value.encode()).hexdigest()}" for name, value in VALUES.items()
    }
    for component in observe(live.run).components:
        log = live.run.directory.logs(1) / component.log
        wait_for(lambda log=log: "serves" in log.read_text())
        assert digests <= set(log.read_text().splitlines()), component.name
    assert len(observe(live.run).components) == len(COMPONENTS)


def test_no_command_prints_a_value(live: Secretive) -> None:
    assert not holds(live.printed.encode())


@pytest.mark.parametrize("folder", ["home", "project", "pulumi-home"])
def test_no_file_holds_a_value(live: Secretive, folder: str) -> None:
    assert files_with_a_value(live.site.folder / folder) == []


def test_no_argv_holds_a_value(live: Secretive) -> None:
    argvs = {}
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argvs[entry.parent.name] = entry.read_bytes()
        except OSError:
            continue

    assert [argv for argv in argvs.values() if holds(argv)] == []


def test_only_the_components_have_the_values_in_their_environment(live: Secretive) -> None:
    components = {one.process.pid for one in observe(live.run).components if one.process}
    found = set()
    for process in live.site.processes():
        if holds(Path(f"/proc/{process.pid}/environ").read_bytes()):
            found.add(process.pid)

    children = {pid for pid in found if parent(pid) in components}
    assert found - children == components


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
