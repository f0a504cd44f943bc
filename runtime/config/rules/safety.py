"""Rules about what prime-rl would do and a shared cluster must not: delete, escape, reach in."""

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from runtime.config.rl import RLConfig
from runtime.config.rules.rule import broken, rule
from runtime.config.schema_walk import Loc
from runtime.config.tables import EnvTable, env_tables, key_variables, placed_sources, urls
from runtime.errors import Problem
from runtime.secret_rules import is_reserved

PROTECTED_ENV = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "PRL_RUN_ID",
        "PRL_RUN_NAME",
        "WANDB_RUN_ID",
        "WANDB_SHARED_MODE",
        "WANDB_SHARED_LABEL",
        "WANDB_SHARED_PRIMARY",
        "WANDB_SHARED_FINISHER",
    }
)
"""Variables that prime-rl's launcher owns; it refuses them too."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLUSTER_API = re.compile(r"^(kubernetes(\.default.*)?|metadata\.google\.internal|metadata)$")


@rule("clean")
def nothing_is_wiped(config: RLConfig) -> Iterator[Problem]:
    """A run directory on a shared volume is not deleted by a config."""
    if config.clean:
        yield broken(
            "clean",
            "clean = true would delete what is in the run directory on the volume",
            fix="remove it: every run has a directory of its own",
        )


@rule("resume", "trainer", "orchestrator", "ckpt", "monitors", "run", "output_dir")
def paths_stay_inside(config: RLConfig) -> Iterator[Problem]:
    """Paths do not climb, and what a run writes stays in its directory."""
    trainer, orchestrator = config.trainer, config.orchestrator
    checkpoint = trainer.ckpt.output_dir if trainer.ckpt else None
    run_dir = Path(config.run.dir) if config.run.dir else None
    anywhere: list[tuple[str, Path | None]] = [
        ("resume.dir", config.resume.dir if config.resume else None),
        ("trainer.resume.dir", trainer.resume.dir if trainer.resume else None),
        ("orchestrator.resume.dir", orchestrator.resume.dir if orchestrator.resume else None),
        ("trainer.model.conversion_dir", trainer.model.conversion_dir),
        ("output_dir", config.output_dir),
    ]
    inside: list[tuple[str, Path | None]] = [
        ("trainer.ckpt.output_dir", checkpoint),
        ("trainer.memory_profiler_path", trainer.memory_profiler_path),
        ("trainer.trace_path", trainer.trace_path),
        ("run.dir", run_dir),
    ]
    for loc, block in (("trainer", trainer), ("orchestrator", orchestrator)):
        if block.monitors.file is not None:
            inside.append((f"{loc}.monitors.file.path", block.monitors.file.path))
    for loc, path in anywhere + inside:
        if path is not None and ".." in path.parts:
            yield broken(loc, f'".." in "{path}" climbs out of the volume', fix="remove it")
    for loc, path in inside:
        if path is not None and path.is_absolute():
            yield broken(
                loc,
                f'"{path}" is absolute, it must lie in the run directory',
                fix="make it relative",
            )


@rule("orchestrator.train.source", "orchestrator.eval.source")
def source_names_are_file_names(config: RLConfig) -> Iterator[Problem]:
    """A source's name becomes a file and a directory."""
    for loc, source in placed_sources(config):
        name = source.name
        if name is not None and (
            re.search(r"[/\\\0\n]", name) or name.strip(". ") == "" or len(name.encode()) > 200
        ):
            yield broken(
                (*loc, "name"),
                f'"{name[:60]}" cannot be the name of a file',
                fix="use letters, digits, - and _",
            )


@rule("env_vars", "trainer", "orchestrator", "inference")
def environment_is_the_users(config: RLConfig) -> Iterator[Problem]:
    """`env_vars` hold settings: no launcher's names, no preloads."""
    for table in env_tables(config):
        yield from _env_problems(table)


def _env_problems(table: EnvTable) -> Iterator[Problem]:
    for name in table.values:
        loc = (*table.loc, name)
        if name in PROTECTED_ENV:
            yield broken(loc, f"{name} is set by the launcher", fix="remove it")
        elif is_reserved(name):
            yield broken(loc, f"{name} is reserved by the platform", fix="remove it")
        elif not _NAME.fullmatch(name):
            yield broken(loc, f'"{name[:60]}" is not an environment variable name')


@rule("trainer", "orchestrator")
def key_variables_are_the_users(config: RLConfig) -> Iterator[Problem]:
    """A key is not read from a variable of the platform, which would send it elsewhere."""
    for loc, name in key_variables(config):
        if is_reserved(name):
            yield broken(
                loc, f"{name} belongs to the platform and is not sent to an endpoint", fix="use "
                "a variable that you pass with -e",
            )  # fmt: skip


@rule("trainer", "orchestrator")
def endpoints_are_not_the_platforms(config: RLConfig) -> Iterator[Problem]:
    """Nobody calls the cloud's metadata service or the cluster's API through a config."""
    for loc, url in urls(config):
        yield from _url_problems(loc, url)


def _url_problems(loc: Loc, url: str) -> Iterator[Problem]:
    try:
        host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    except ValueError:
        yield broken(loc, "not an address", fix="write scheme://host:port")
        return
    try:
        is_link_local = ipaddress.ip_address(host).is_link_local
    except ValueError:
        is_link_local = False
    if is_link_local or host == "fd00:ec2::254" or _CLUSTER_API.match(host):
        yield broken(
            loc, f"{host} is the cloud's or the cluster's own service", fix="use a server of yours"
        )


@rule("slurm")
def no_script_of_slurm_is_run(config: RLConfig) -> Iterator[Problem]:
    """`[slurm]` is ignored; a batch script of the user's cannot be, the run depends on it."""
    slurm = config.slurm
    if slurm is not None and slurm.template_path is not None:
        also = ", nor does it run slurm.pre_run_command" if slurm.pre_run_command else ""
        yield broken(
            "slurm.template_path",
            f"paddock renders no batch script{also}",
            fix="remove it; what the script did belongs into the image or into [env_vars]",
        )


RULES = (
    nothing_is_wiped,
    paths_stay_inside,
    source_names_are_file_names,
    environment_is_the_users,
    key_variables_are_the_users,
    endpoints_are_not_the_platforms,
    no_script_of_slurm_is_run,
)
