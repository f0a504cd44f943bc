"""The CLI: one table of commands; what they do is in `runtime.commands`.

Every PaddockError, and every OSError, ends as its message on stderr and its exit code; a traceback
is a bug.
"""

import itertools
import json
import sys

import typer

from runtime.commands import (
    demo,
    doctor,
    follow,
    headroom,
    models,
    plan,
    reconcile,
    serve,
    stack,
)
from runtime.commands.admin import backups, keys, runs, users, wallets
from runtime.commands.remote import account, train, volumes
from runtime.errors import PaddockError, Problem, ProblemsError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Hosted reinforcement learning on your own cluster: one prime-rl TOML, one Pulumi stack.",
)
for name, command in {
    "plan": plan.plan,
    "env": stack.env,
    "wait": follow.wait,
    "logs": follow.logs,
    "components": follow.components,
    "stop": follow.stop,
    "resume": stack.resume,
    "destroy": stack.destroy,
    "gpus": headroom.list_gpus,
    "schema": plan.schema,
    "doctor": doctor.doctor,
    "reconcile": reconcile.reconcile,
    "serve": serve.serve,
    "demo": demo.demo,
    "backup": backups.backup,
    "restore": backups.restore,
    "login": account.login,
    "whoami": account.whoami,
}.items():
    app.command(name)(command)
app.add_typer(train.train_app, name="train")
app.add_typer(volumes.volumes_app, name="volumes")
app.add_typer(stack.stack_app, name="stack")
app.add_typer(models.models_app, name="models")
app.add_typer(users.user_app, name="user")
app.add_typer(users.team_app, name="team")
app.add_typer(keys.key_app, name="key")
app.add_typer(wallets.wallet_app, name="wallet")
app.add_typer(runs.runs_app, name="runs")


def main() -> None:
    """Run the CLI; the console script."""
    try:
        app()
    except PaddockError as error:
        _show(error)
        sys.exit(error.exit_code)
    except OSError as error:  # the process boundary: a full disk, a folder that is not ours
        _show(PaddockError(str(error)))
        sys.exit(PaddockError.exit_code)


def _show(error: PaddockError) -> None:
    sys.stderr.write(f"error: {error}\n")
    if _wants_json(sys.argv):
        problems = [
            {
                "loc": list(problem.loc),
                "msg": problem.message,
                "fix": problem.fix,
                "code": problem.code,
            }
            for problem in _problems(error)
        ]
        sys.stdout.write(json.dumps({"error": error.code, "detail": problems}, indent=2) + "\n")


def _problems(error: PaddockError) -> tuple[Problem, ...]:
    if isinstance(error, ProblemsError):
        return error.problems
    return (Problem(message=str(error), code=error.code),)


def _wants_json(argv: list[str]) -> bool:
    pairs = itertools.pairwise(argv)
    return not {"--output=json", "-ojson"}.isdisjoint(argv) or any(
        flag in {"--output", "-o"} and value == "json" for flag, value in pairs
    )
