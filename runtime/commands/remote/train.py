"""The table of `paddock train`: a file to dispatch, or a command by name."""

import typer

from runtime.commands.remote import catalog, dispatch, logs, monitoring, runs
from runtime.commands.remote.default_command import DEFAULT, HELP, DefaultCommandGroup

train_app = typer.Typer(
    cls=DefaultCommandGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": [*HELP]},
    subcommand_metavar="FILE.toml | COMMAND [ARGS]...",
    help=(
        "Runs through a server: `paddock train FILE.toml` dispatches one, commands look after it. "
        "`paddock train FILE.toml --help` shows the options of a dispatch: secrets, GPU type, "
        "volume, ceiling."
    ),
)
train_app.command(DEFAULT, hidden=True)(dispatch.train)
for _name, _command in {
    "models": catalog.models,
    "gpus": catalog.gpus,
    "list": runs.list_runs,
    "get": runs.get_run,
    "stop": runs.stop,
    "pause": runs.pause,
    "resume": dispatch.resume,
    "restart": runs.restart,
    "delete": runs.delete,
    "logs": logs.logs,
    "components": monitoring.components,
    "progress": monitoring.progress,
    "metrics": monitoring.metrics,
    "rollouts": monitoring.rollouts,
    "distributions": monitoring.distributions,
    "checkpoints": monitoring.checkpoints,
    "usage": monitoring.usage,
}.items():
    train_app.command(_name)(_command)
train_app.command("ls", hidden=True)(runs.list_runs)
