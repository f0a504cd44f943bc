"""`paddock demo`: the main job to its end, the hosted service's example on this machine.

Makes a cluster stack and a run stack, follows the run to COMPLETED, prints the curve, destroys and
removes both. Three values of that file are replaced and a [ckpt] block is added, openly: the diff
is printed.
"""

import difflib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from runtime import homes, models, naming
from runtime.commands.follow import follow
from runtime.commands.models import make_tiny_model
from runtime.commands.session import console, open_project, say
from runtime.control import stacks
from runtime.control.dispatch import new_run_stack, new_stack
from runtime.control.stacks import Project
from runtime.errors import RunStateError, StackError
from runtime.local_state import LocalRun
from runtime.locate import locate_run
from runtime.processes import marked_processes
from runtime.progress import MetricsTail, reward_curve
from runtime.states import EXIT_CODES, RunState

HOSTED_CONFIG = "examples/reverse-text.toml"
DEMO_CONFIG = "examples/demo.toml"
_AVERAGED_STEPS = 5


def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="leave the stacks for a look around")
    ] = False,
) -> None:
    """Run the hosted example on this machine, from QUEUED to destroyed; print its curve."""
    started = time.monotonic()
    project = open_project()
    out = console()
    _print_diff(project.path)
    models.add_model(models.TINY_MODEL, make_tiny_model(), str(homes.cache_path()))
    suffix = naming.new_run_id()[:6]
    cluster, run_id = f"demo-cluster-{suffix}", f"demo-{suffix}"
    with _stack(project, cluster, keep=keep):
        new_stack(project, cluster, {"kind": "cluster", "target": "local", "slots": 2})
        stacks.up(project, cluster, say)
        with _stack(project, run_id, keep=keep):
            settings = {"cluster": cluster, "config": DEMO_CONFIG}
            new_run_stack(project, run_id, settings, secrets={})
            stacks.up(project, run_id, say)
            run = locate_run(project, run_id)
            assert isinstance(run, LocalRun), "the demo makes a cluster of this machine"
            record = follow(run)
            tail = MetricsTail(run.directory.metrics)
            rewards = dict(tail.new_rewards())
            mark = run.mark.rpartition("/")[0]
    for line in reward_curve(rewards):
        out.print(line)
    if record.state is not RunState.COMPLETED:
        raise RunStateError(f"{run_id} is {record.state}: {record.reason}")
    steps = sorted(rewards)
    first = [rewards[step] for step in steps[:_AVERAGED_STEPS]]
    last = [rewards[step] for step in steps[-_AVERAGED_STEPS:]]
    out.print(
        f"{run_id} {record.state}: {len(steps)} steps, mean reward "
        f"{sum(first) / len(first):.3f} -> {sum(last) / len(last):.3f}, "
        f"{time.monotonic() - started:.0f} s in all"
    )
    out.print(f"Kept: {run.run_path} (configs, logs, metrics.jsonl, rollouts, checkpoints)")
    if not keep:
        _print_leftovers(project, mark)
    raise typer.Exit(EXIT_CODES[record.state])


@contextmanager
def _stack(project: Project, stack: str, *, keep: bool) -> Iterator[None]:
    """Destroy and remove the stack at the end, also after an error or Ctrl-C."""
    try:
        yield
    finally:
        if not keep and stack in stacks.list_stacks(project):
            say(f"Destroying {stack}")
            stacks.destroy(project, stack, say)
            stacks.remove_stack(project, stack)


def _print_diff(root: Path) -> None:
    hosted = (root / HOSTED_CONFIG).read_text().splitlines(keepends=True)
    demo_lines = (root / DEMO_CONFIG).read_text().splitlines(keepends=True)
    for line in difflib.unified_diff(hosted, demo_lines, HOSTED_CONFIG, DEMO_CONFIG, n=0):
        console().print(line.rstrip("\n"))


def _print_leftovers(project: Project, mark: str) -> None:
    left = stacks.list_stacks(project)
    console().print(f"pulumi stack ls: {', '.join(left) if left else 'empty'}")
    name = naming.ENV_RUN_MARK.encode()
    wanted = mark.encode()
    alive = marked_processes(lambda env: env.get(name, b"").startswith(wanted))
    if alive:
        raise StackError(f"processes of the run are left: {sorted(one.pid for one in alive)}")
    console().print(f"Processes of the run on {socket.gethostname()}: none")
