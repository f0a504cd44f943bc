"""`paddock wallet`: the money of users and teams, and what it may be spent on."""

import secrets
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.commands.admin.database import DatabaseOption, print_table, reading, writing
from runtime.commands.session import Output, OutputOption, print_json
from runtime.control.money import exact_usd
from runtime.control.values import MICROUSD_PER_USD, EntryKind, wallet_id_of
from runtime.errors import Problem, SettingsError

if TYPE_CHECKING:
    from sqlalchemy import Connection

wallet_app = typer.Typer(no_args_is_help=True, help="The wallets of users and teams.")

OwnerArgument = Annotated[str, typer.Argument(help="user (id, email, slug), or team with --team")]
TeamFlag = Annotated[bool, typer.Option("--team", help="the owner is a team")]


@wallet_app.command("credit")
def credit(
    owner: OwnerArgument,
    usd: Annotated[str, typer.Argument(help="dollars, e.g. 250 or 99.50; after -- a correction")],
    team: TeamFlag = False,
    key: Annotated[
        str, typer.Option(help="invoice or other name of the payment; each is credited once")
    ] = "",
    note: Annotated[str, typer.Option(help="what it is for")] = "",
    database: DatabaseOption = None,
) -> None:
    """Put money into a wallet; with --key, once however often it is called."""
    amount = read_usd(usd)
    with writing(database) as tx:
        from runtime.control.store import wallets

        wallet_id = _wallet_id(tx, owner, is_team=team)
        movement = wallets.Movement(
            wallet_id=wallet_id,
            key=f"credit/{wallet_id}/{key}" if key else f"credit/{secrets.token_hex(12)}",
            kind=EntryKind.CREDIT,
            amount_microusd=amount,
            note=note,
        )
        is_new = wallets.post(tx, movement)
        balance = wallets.get_wallet(tx, wallet_id).balance_microusd
    said = f"{exact_usd(amount)} credited" if is_new else f"{key} was credited before"
    typer.echo(f"{said}; the balance of {owner} is {exact_usd(balance)}")


@wallet_app.command("limit")
def limit(
    owner: OwnerArgument,
    team: TeamFlag = False,
    on_demand: Annotated[
        bool | None, typer.Option("--on-demand/--no-on-demand", help="may start runs at all")
    ] = None,
    max_gpus: Annotated[
        int | None, typer.Option(min=0, help="cap on the GPUs of one run; 0 lifts it")
    ] = None,
    database: DatabaseOption = None,
) -> None:
    """Set what a wallet may be spent on; what is not named stays."""
    with writing(database) as tx:
        from runtime.control.store import wallets

        wallet_id = _wallet_id(tx, owner, is_team=team)
        wallets.set_limits(tx, wallet_id, is_on_demand_enabled=on_demand, max_gpus_per_run=max_gpus)
        wallet = wallets.get_wallet(tx, wallet_id)
    on_or_off = "on" if wallet.is_on_demand_enabled else "off"
    cap = wallet.max_gpus_per_run or "no cap of its own"
    typer.echo(f"{owner}: on-demand {on_or_off}, GPUs of one run: {cap}")


@wallet_app.command("list")
def list_wallets(database: DatabaseOption = None, output: OutputOption = Output.TEXT) -> None:
    """List the wallets that were used, with their balances."""
    with reading(database) as tx:
        from runtime.control.store import users, wallets

        found = wallets.list_wallets(tx)
        owners = {f"user/{user.user_id}": user.slug for user in users.list_users(tx)}
        owners |= {f"team/{team.team_id}": f"{team.slug} (team)" for team in users.list_teams(tx)}
    if output is Output.JSON:
        return print_json([asdict(wallet) for wallet in found])
    rows = [
        [
            owners.get(wallet.wallet_id, wallet.wallet_id),
            exact_usd(wallet.balance_microusd),
            "on" if wallet.is_on_demand_enabled else "off",
            str(wallet.max_gpus_per_run or ""),
        ]
        for wallet in found
    ]
    return print_table(["OWNER", "BALANCE", "ON-DEMAND", "MAX GPUS"], rows)


@wallet_app.command("show")
def show(
    owner: OwnerArgument,
    team: TeamFlag = False,
    num: Annotated[int, typer.Option("--num", "-n", min=1, help="how many movements")] = 20,
    database: DatabaseOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show a wallet's balance and what moved in it, the newest first."""
    with reading(database) as tx:
        from runtime.control.store import wallets

        wallet_id = _wallet_id(tx, owner, is_team=team)
        wallet = wallets.get_wallet(tx, wallet_id)
        entries = wallets.list_entries(tx, wallet_id, limit=num)
    if output is Output.JSON:
        shown = [asdict(entry) for entry in entries]
        return print_json({"wallet": asdict(wallet), "entries": shown})
    typer.echo(f"{owner}: {exact_usd(wallet.balance_microusd)}")
    rows = [
        [
            f"{entry.time:%Y-%m-%d %H:%M:%S}",
            entry.kind,
            exact_usd(entry.amount_microusd),
            entry.run_id or "",
            entry.note,
        ]
        for entry in entries
    ]
    return print_table(["TIME (UTC)", "KIND", "AMOUNT", "RUN", "NOTE"], rows)


def read_usd(text: str, *, source: str = "wallet credit") -> int:
    """Return the micro-dollars of an amount in dollars; raises SettingsError."""
    try:
        amount = Decimal(text) * MICROUSD_PER_USD
        is_exact = amount.is_finite() and amount == amount.to_integral_value()
    except ArithmeticError:  # no number, or too large for a Decimal
        amount, is_exact = Decimal(0), False
    if not is_exact or amount == 0 or abs(amount) >= 2**62:
        problem = Problem(message=f"{text!r} is no amount of dollars", fix="e.g. 250 or 99.50")
        raise SettingsError([problem], source=source)
    return int(amount)


def _wallet_id(connection: "Connection", owner: str, *, is_team: bool) -> str:
    from runtime.control.store import users

    if is_team:
        return wallet_id_of("", users.find_team(connection, owner).team_id)
    return wallet_id_of(users.find_user(connection, owner).user_id, None)
