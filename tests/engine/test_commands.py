"""`paddock env`, `wait`, `logs`, `components` and `stop` on runs that the engine made."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.states import RunState
from tests.engine.sites import COMPONENTS, PADDOCK, Site

pytestmark = pytest.mark.engine

RUN = "followed"


@pytest.fixture(scope="module")
def live(shared_site: Site) -> Iterator[Site]:
    """Yield the site with a live run; it is stopped by the last test."""
    shared_site.up(RUN)
    shared_site.until(RUN, RunState.RUNNING)
    yield shared_site
    shared_site.pulumi("destroy", "-s", RUN)
    shared_site.assert_nothing_left()


def shell(site: Site, script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a script in a shell that has only what a person's shell has."""
    kept = ("HOME", "PADDOCK_HOME", "PADDOCK_CACHE", "PULUMI_HOME")
    own = {name: site.environment[name] for name in kept}
    return subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=site.project.path,
        env={**own, "PATH": "/usr/local/bin:/usr/bin:/bin", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_plain_pulumi_works_after_paddock_env(live: Site) -> None:
    done = shell(live, f'eval "$({PADDOCK} env)" && pulumi stack ls && paddock --help')

    assert done.returncode == 0, done.stderr
    assert RUN in done.stdout


def test_a_backend_and_a_passphrase_of_the_users_are_respected(live: Site, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    url = theirs.as_uri()
    script = (
        f'eval "$({PADDOCK} env)" && pulumi stack init mine --non-interactive --no-select && '
        'echo "backend $PULUMI_BACKEND_URL phrase ${PULUMI_CONFIG_PASSPHRASE_FILE:-none}"'
    )

    done = shell(live, script, PULUMI_BACKEND_URL=url, PULUMI_CONFIG_PASSPHRASE="known")

    live.project.settings_file("mine").unlink()
    assert done.returncode == 0, done.stderr
    assert f"backend {url} phrase none" in done.stdout
    assert list(theirs.glob(".pulumi/stacks/paddock/mine.json"))


def test_components_as_json(live: Site) -> None:
    rows = json.loads(live.paddock("components", RUN, "--output", "json").out)

    assert {row["name"] for row in rows} == set(COMPONENTS)
    assert {row["state"] for row in rows} == {"running"}
    assert sum(row["gpus"] for row in rows) == 2
    assert all(row["pid"] for row in rows)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--tail", "1"), ["12:00:01 WARNING this is a stand-in"]),
        (("--search", "serves"), ["12:00:00 INFO {role} serves {ports} ports"]),
        (("--level", "warning"), ["12:00:01 WARNING this is a stand-in"]),
    ],
)
def test_logs_of_every_component(live: Site, flags: tuple[str, ...], expected: list[str]) -> None:
    ports = {"orchestrator": 0, "inference": 1, "trainer": 1}
    for role, num_ports in ports.items():
        shown = live.paddock("logs", RUN, "-c", role, *flags).out.splitlines()
        assert shown == [line.format(role=role, ports=num_ports) for line in expected]
    shown = live.paddock("logs", RUN, "--env", "reverse-text", *flags).out.splitlines()
    assert shown == [line.format(role="env", ports=1) for line in expected]


def test_logs_of_a_component_that_is_not_there_name_those_that_are(live: Site) -> None:
    said = live.paddock("logs", RUN, "-c", "judge", expect=2).err

    assert "has no component judge" in said
    assert "orchestrator" in said


def test_a_stopped_run_is_waited_for_with_exit_code_two(live: Site) -> None:
    waiting = live.start("paddock", "wait", RUN)

    stopped = live.paddock("stop", RUN)

    out, _ = waiting.communicate(timeout=60)
    assert f"{RUN} is STOPPED" in stopped.out
    assert waiting.returncode == 2
    assert f"{RUN} STOPPED: stopped by paddock stop" in out
    assert live.pulumi("up", "-s", RUN, expect=None).code != 0


def test_a_followed_log_ends_with_the_run(site: Site) -> None:
    site.up("tailed", "quick")

    lines = site.paddock("logs", "tailed", "-f").out.splitlines()

    assert lines[0] == "12:00:00 INFO orchestrator serves 0 ports"
    assert lines[-1] == "Orchestrator finished."
    assert site.paddock("wait", "tailed", "--destroy").code == 0


def test_wait_destroys_when_asked_and_answers_zero(site: Site) -> None:
    site.up("awaited", "quick")

    result = site.paddock("wait", "awaited", "--destroy", "--output", "json")

    assert json.loads(result.out)["state"] == "COMPLETED"
    assert "RUNNING" in result.err
    assert "step    1  reward 0.500" in result.err
    assert site.export("awaited") == []
    assert site.paddock("logs", "awaited").out.splitlines()[-1] == "Orchestrator finished."
