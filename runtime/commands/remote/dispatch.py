"""`paddock train FILE` and `paddock train resume`: a run is made by the server.

The file goes as it stands and is judged there; here are read what only this machine has: the file
and the files of secrets beside it, their values, the key of an earlier try that got no answer.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.client.printable import printable
from runtime.commands.admin.wallets import read_usd
from runtime.commands.remote.connection import RunIdArgument, ServerOption, connected
from runtime.commands.remote.run_file import read_run_file
from runtime.commands.session import Output, OutputOption, print_json, say
from runtime.config import DispatchFlags
from runtime.config.toml_text import UnreadableError, decode, read_file
from runtime.control.money import exact_usd
from runtime.control.wire.model import MAX_INTEGER
from runtime.credentials import REFERENCE, environment_problems
from runtime.errors import ConfigError, Problem, RefusedError, SettingsError
from runtime.secret_rules import read_env_file, read_env_flags, secret_problems

if TYPE_CHECKING:
    from runtime.client.answers import Dispatched

EnvOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env-var", "-e", help="secret: KEY (from this shell), or KEY=VALUE (seen by others)"
    ),
]
EnvFileOption = Annotated[
    list[Path] | None, typer.Option("--env-file", help="0600 file of KEY=VALUE lines")
]
ImageTagOption = Annotated[str | None, typer.Option(help="prime-rl image build, e.g. v0.5.1")]
GpuTypeOption = Annotated[
    str | None, typer.Option(help="GPU type, e.g. H200_141GB; default: the cheapest that is free")
]
VolumeOption = Annotated[
    str | None,
    typer.Option(help="volume for checkpoints and models; made where there is none of that name"),
]
VolumeSizeOption = Annotated[
    str | None,
    typer.Option(help="size of a volume that is made, e.g. 500Gi; default: the server's"),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", hidden=True)]
"""Scripts for `prime` have it, which asks before it dispatches; nothing is asked here."""


def train(
    config: Annotated[Path, typer.Argument(help="prime-rl TOML of the run")],
    env_vars: EnvOption = None,
    env_files: EnvFileOption = None,
    image_tag: ImageTagOption = None,
    gpu_type: GpuTypeOption = None,
    volume: VolumeOption = None,
    volume_size: VolumeSizeOption = None,
    environments: Annotated[
        list[str] | None,
        typer.Option("--environment", help="package that the run installs at start"),
    ] = None,
    resume_from: Annotated[
        str | None,
        typer.Option(metavar="RUN[:STEP]", help="start with the checkpoint of another run"),
    ] = None,
    max_spend: Annotated[
        str | None,
        typer.Option(metavar="USD", help="stop the run after a last checkpoint when it cost this"),
    ] = None,
    server: ServerOption = None,
    output: OutputOption = Output.TEXT,
    _yes: YesOption = False,
) -> None:
    """Dispatch a run. The same command after a lost answer makes no second one."""
    flags = DispatchFlags(volume=volume, volume_size=volume_size)
    file = read_run_file(config, _read_config(config), flags)
    env = read_secrets(env_vars or [], env_files or [], file.secrets())
    ceiling = _read_ceiling(max_spend)
    if problems := environment_problems(environments or ()):
        raise RefusedError(problems)
    with connected(server) as api:
        from runtime.client.dispatches import Dispatch, dispatch
        from runtime.client.kept_dispatches import attempted
        from runtime.commands.remote.named_volume import provide_volume

        wanted = Dispatch(
            config_text=file.text,
            source=str(config),
            image_tag=image_tag,
            gpu_type=gpu_type,
            volume=volume,
            resume_from=resume_from,
            environments=tuple(environments or ()),
            max_spend_microusd=ceiling,
            env=env,
        )
        if file.keys.volume is not None and resume_from is None:
            provide_volume(api, file)
        with attempted(wanted.digest(api.server.url), os.environ) as attempt:
            if attempt.is_again:
                say("An earlier dispatch of this got no answer: asking for its run, not a second")
            made = dispatch(api, wanted, attempt.key)
        _print_dispatched(made, api.server.url, output, done="Dispatched hosted run")


def resume(
    run_id: RunIdArgument,
    env_vars: EnvOption = None,
    env_files: EnvFileOption = None,
    image_tag: ImageTagOption = None,
    gpu_type: GpuTypeOption = None,
    server: ServerOption = None,
    output: OutputOption = Output.TEXT,
    _yes: YesOption = False,
) -> None:
    """Go on from the last checkpoint of a PAUSED run, as its next attempt.

    From one that is over a new run starts: `paddock train FILE --resume-from RUN`.
    """
    env = read_secrets(env_vars or [], env_files or [])
    with connected(server) as api:
        from runtime.client import dispatches

        wanted = dispatches.Resume(image_tag=image_tag, gpu_type=gpu_type, env=env)
        made = dispatches.resume(api, run_id, wanted)
        _print_dispatched(made, api.server.url, output, done="Resumed hosted run")


def read_secrets(
    flags: list[str], files: list[Path], named: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the values that the run's file names, of files and of flags, the later ones winning.

    A value in a flag draws a warning. Raises SettingsError, which names keys only.
    """
    values = dict(named or {})
    for path in files:
        values |= read_env_file(path)
    given = read_env_flags(flags, os.environ)
    for name, value in values.items():
        if name not in given and REFERENCE.search(value):
            say(f"warning: {name} holds a ${{NAME}}, which is taken as it stands: pass -e {name}")
    values |= given
    if problems := secret_problems(values):
        raise SettingsError(problems, source="secrets")
    for name in [flag.partition("=")[0] for flag in flags if "=" in flag]:
        say(
            f"warning: -e {name}=... stands in this machine's list of processes and in your "
            f"shell's history: export {name} and pass -e {name}, or use --env-file"
        )
    return values


def _read_config(path: Path) -> str:
    try:
        return decode(read_file(path))
    except UnreadableError as error:
        problem = error.problem
        if not path.exists() and (close := _close_command(str(path))):
            problem = Problem(message=f"{problem.message}, and no such command", fix=close)
        raise ConfigError([problem], source=str(path)) from None


def _close_command(word: str) -> str:
    from runtime.commands.remote.train import train_app

    names = [command.name or "" for command in train_app.registered_commands]
    close = difflib.get_close_matches(word, names, n=1)
    return f"paddock train {close[0]}?" if close else ""


def _read_ceiling(text: str | None) -> int | None:
    if text is None:
        return None
    amount = read_usd(text, source="--max-spend")
    if amount < 0:
        problem = Problem(message=f"{text} is under zero", fix="e.g. 250 or 99.50")
        raise SettingsError([problem], source="--max-spend")
    if amount > MAX_INTEGER:  # what a server takes, in micro-dollars
        fix = f"at most {exact_usd(MAX_INTEGER)}; without it the wallet is the ceiling"
        problem = Problem(message=f"{text} is too much", fix=fix)
        raise SettingsError([problem], source="--max-spend")
    return amount


def _print_dispatched(made: "Dispatched", url: str, output: Output, *, done: str) -> None:
    link = f"{url}/dashboard/training/{made.run_id}"
    if output is Output.JSON:
        priced = {"onDemand", "gpuType", "pricePerGpuHour", "estimatedCostPerHour", "isBeta"}
        said = ("notices",) if made.notices else ()
        shown = {"runId", *said, *(priced if made.on_demand else ())}
        fields = made.model_dump(mode="json", by_alias=True)
        told = {name: value for name, value in fields.items() if name in shown}
        print_json({"run": {**told, "url": link}})
        return
    typer.echo(f"{done} {made.run_id}")
    for notice in made.notices:
        typer.echo(f"notice: {printable(notice)}")
    if made.on_demand and made.price_per_gpu_hour is not None:
        price = f"On-demand {made.gpu_type or ''}".rstrip()
        price += f", ${made.price_per_gpu_hour:.2f}/GPU-hour"
        if made.estimated_cost_per_hour is not None:
            price += f", about ${made.estimated_cost_per_hour:.2f}/hour"
        typer.echo(f"{price}; billed while its pods run")
    typer.echo(f"\nMonitor run at:\n  {link}")
