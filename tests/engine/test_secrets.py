"""Canary values go into a run in all three ways; they are in its components and nowhere else.

One is as large as a value may be, and all together are as large as they may be.
"""

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime import limits
from runtime.local_state import LocalRun
from runtime.observe.local import observe
from runtime.states import RunState
from tests.engine.sites import COMPONENTS, Site
from tests.secret_search import files_with_value, has_value
from tests.waiting import wait_for

pytestmark = pytest.mark.engine

RUN = "secretive"
NUM_SOUGHT = 20
"""So many of a value's first characters are looked for: a part of it is a leak too."""


def large_value(mark: str, num_bytes: int) -> str:
    """Return a value that packs badly."""
    return f"{mark}-{secrets.token_hex(num_bytes)}"[:num_bytes]


def filling(total: int) -> dict[str, str]:
    """Return values of so many bytes together, each as large as it may be; the last is the rest."""
    largest = limits.MAX_SECRET_VALUE_BYTES
    sizes = [min(largest, total - start) for start in range(0, total, largest)]
    marks = [f"canary-fill-5c20f6-{number}" for number in range(len(sizes))]
    pairs = zip(marks, sizes, strict=True)
    return {f"CANARY_FILL_{mark[-1]}": large_value(mark, size) for mark, size in pairs}


FLAGS = {
    "CANARY_FLAG": "canary-flag-8c55f1e0\n",
    "CANARY_DIGITS": "009081726354",
    "CANARY_LARGE": large_value("canary-large-ab3d9e71", limits.MAX_SECRET_VALUE_BYTES),
}
FILE, PATH = "canary-file-1d0ab327", "canary-path-77f0e2c9\nwith a second line "
NUM_LEFT = limits.MAX_SECRETS_TOTAL_BYTES - len("".join([*FLAGS.values(), FILE, PATH]))
IN_FILE = {"CANARY_FILE": FILE, **filling(NUM_LEFT)}
VALUES = {**FLAGS, **IN_FILE, "CANARY_PATH": PATH}


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
    env_file.write_text("".join(f"{name}={value}\n" for name, value in IN_FILE.items()))
    toml = site.write_toml(RUN, "long")
    printed = []

    def run(*command: str, stdin: str | None = None, **extra: str) -> None:
        printed.append(site.run(*command, stdin=stdin, expect=0, **extra).text)

    flags = [word for name in FLAGS for word in ("-e", name)]
    run("paddock", "stack", "new", RUN, toml.name, *flags, **FLAGS)
    run("pulumi", "config", "set", "paddock:envFile", str(env_file), "-s", RUN)
    secret = ("config", "set", "--secret", "--path", "paddock:env.CANARY_PATH", "-s", RUN)
    run("pulumi", *secret, stdin=PATH)
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


def sought() -> list[str]:
    """Return what to look for: the beginning of each value."""
    return [value.partition("\n")[0][:NUM_SOUGHT] for value in VALUES.values()]


def holds(data: bytes) -> bool:
    return any(has_value(data, one) for one in sought())


def test_the_values_are_as_large_as_they_may_be() -> None:
    sizes = [len(value.encode()) for value in VALUES.values()]

    assert max(sizes) == limits.MAX_SECRET_VALUE_BYTES
    assert sum(sizes) == limits.MAX_SECRETS_TOTAL_BYTES
    assert all(holds(value.encode()) for value in VALUES.values())
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
    for one in sought():
        assert files_with_value(live.site.folder / folder, one) == []


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
