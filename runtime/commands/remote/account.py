"""`paddock login` and `paddock whoami`: a server and the key for it.

A key is read from the environment, a prompt or a pipe, never from an argument, which every user of
the machine can see.
"""

import os
import sys

import typer

from runtime.commands.remote.connection import ServerOption, connected
from runtime.commands.session import Output, OutputOption, print_json, say
from runtime.control.money import exact_usd


def login(server: ServerOption = None) -> None:
    """Keep a server and an API key for the commands that follow; the key is tried first.

    The key is that of `paddock key add`, from PADDOCK_API_KEY, a prompt, or a pipe.
    """
    from runtime.client import catalog
    from runtime.client.api import open_api
    from runtime.client.settings import KEY_VARIABLE, PROMPT, Server, check_key, keep, login_url

    url = login_url(server, os.environ)
    key, source = os.environ.get(KEY_VARIABLE, ""), KEY_VARIABLE
    if not key:
        key, source = _ask_key(url), PROMPT
    chosen = Server(url=url, api_key=check_key(key, source), key_source=source)
    if url.startswith("http:") and not chosen.is_loopback:
        say(f"warning: {url} is not TLS: the key and your secrets cross the network in clear")
    with open_api(chosen) as api:
        person = catalog.whoami(api)
    path = keep(chosen, os.environ)
    typer.echo(f"Logged in to {url} as {person.name} ({person.email}). The key is in {path}")


def whoami(server: ServerOption = None, output: OutputOption = Output.TEXT) -> None:
    """Show whom the API key stands for, and which server is asked."""
    with connected(server) as api:
        from runtime.client import catalog

        person = catalog.whoami(api)
        url = api.server.url
    if output is Output.JSON:
        print_json({**person.model_dump(mode="json"), "server": url})
        return
    typer.echo(f"{person.name} ({person.email}), id {person.id}, on {url}")
    if person.balance_microusd is not None:
        typer.echo(f"  balance {exact_usd(person.balance_microusd)}")
    for team in person.teams:
        typer.echo(f"  team {team.name}, id {team.id}")


def _ask_key(url: str) -> str:
    if sys.stdin.isatty():
        return typer.prompt(f"API key for {url}", hide_input=True).strip()
    return sys.stdin.readline().strip()
