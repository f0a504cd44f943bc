"""`paddock user|team|key|wallet`, on a database of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from runtime.cli import app
from runtime.commands.admin.database import choose_url
from runtime.commands.admin.wallets import read_usd
from runtime.control.money import exact_usd
from runtime.control.store import keys
from runtime.control.store.store import open_store
from runtime.errors import ConflictError, NotFoundError, RefusedError, SettingsError

ROOT = Path(__file__).parents[4]
CANARY = "hunter2-canary"


@pytest.fixture(autouse=True)
def database(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name a fresh database in the environment."""
    monkeypatch.setenv("PADDOCK_DATABASE", sqlite_url)
    return sqlite_url


def paddock(*arguments: str) -> str:
    """Run a command and return what it printed; its error is raised."""
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_first_admin_gets_a_key_that_opens(database: str) -> None:
    paddock("user", "add", "Ada Lovelace", "--email", "ada@example.org", "--admin")

    token = paddock("key", "add", "ada@example.org", "--name", "laptop").strip()
    listed = paddock("key", "list")

    store = open_store(database)
    with store.read() as tx:
        key = keys.find_key(tx, token)
    store.close()
    assert key is not None
    assert key.name == "laptop"
    assert token not in listed
    assert key.prefix in listed
    (user,) = json.loads(paddock("user", "list", "-o", "json"))
    assert (user["user_id"], user["is_admin"]) == (key.user_id, True)


def test_a_revoked_key_is_shown_as_such(database: str) -> None:
    paddock("user", "add", "ada", "--email", "ada@example.org")
    made = json.loads(paddock("key", "add", "ada", "-o", "json"))

    said = [paddock("key", "revoke", made["key_id"]) for _ in range(2)]

    assert [text.strip() for text in said] == [
        f"Key {made['key_id']} is revoked",
        f"Key {made['key_id']} was already revoked",
    ]
    assert "revoked 20" in paddock("key", "list", "--user", "ada")
    with pytest.raises(NotFoundError, match="none-such"):
        paddock("key", "revoke", "none-such")


def test_teams_have_members_and_keys() -> None:
    for name in ("ada", "bob"):
        paddock("user", "add", name, "--email", f"{name}@example.org")
    paddock("team", "add", "The [bold] Lab", "--slug", "lab")
    paddock("team", "join", "lab", "ada")
    paddock("team", "join", "lab", "bob")

    left = paddock("team", "leave", "lab", "bob")
    again = paddock("team", "leave", "lab", "bob")
    key = json.loads(paddock("key", "add", "ada", "--team", "lab", "-o", "json"))
    (team,) = json.loads(paddock("team", "list", "-o", "json"))

    assert left.strip() == "bob is no member any more of lab; keys for it are revoked"
    assert again.strip() == "bob was no member of lab; keys for it are revoked"
    assert [member["slug"] for member in team["members"]] == ["ada"]
    assert key["team_id"] == team["team_id"]
    with pytest.raises(RefusedError, match="paddock team join lab bob"):
        paddock("key", "add", "bob", "--team", "lab")
    assert "The [bold] Lab  ada" in paddock("team", "list")


def test_an_email_is_taken_once() -> None:
    paddock("user", "add", "ada", "--email", "ada@example.org")

    with pytest.raises(ConflictError, match=r"ada@example\.org"):
        paddock("user", "add", "ada2", "--email", "Ada@Example.org")
    with pytest.raises(NotFoundError, match="eve"):
        paddock("key", "add", "eve")


def test_a_payment_is_credited_once() -> None:
    paddock("user", "add", "ada", "--email", "ada@example.org")
    paddock("team", "add", "lab")

    first = paddock("wallet", "credit", "ada", "99.50", "--key", "invoice-1")
    again = paddock("wallet", "credit", "ada", "99.50", "--key", "invoice-1")
    paddock("wallet", "credit", "lab", "1000000", "--team", "--key", "invoice-1")
    corrected = paddock("wallet", "credit", "ada", "--", "-0.000001")
    listed = paddock("wallet", "list")

    assert first.strip() == "$99.50 credited; the balance of ada is $99.50"
    assert again.strip() == "invoice-1 was credited before; the balance of ada is $99.50"
    assert corrected.strip() == "-$0.000001 credited; the balance of ada is $99.499999"
    assert "$1,000,000.00" in listed
    assert "lab (team)" in listed


def test_a_wallet_shows_what_moved_in_it() -> None:
    paddock("user", "add", "ada", "--email", "ada@example.org")
    paddock("wallet", "credit", "ada", "99.50", "--key", "invoice-1", "--note", "spring [q2]")
    paddock("wallet", "credit", "ada", "--", "-0.5")

    shown = paddock("wallet", "show", "ada")
    newest = json.loads(paddock("wallet", "show", "ada", "-n", "1", "-o", "json"))

    assert shown.startswith("ada: $99.00\n")
    assert shown.index("-$0.50") < shown.index("spring [q2]")
    assert newest["wallet"]["balance_microusd"] == 99_000_000
    assert [one["amount_microusd"] for one in newest["entries"]] == [-500_000]


def test_limits_are_set_and_shown() -> None:
    paddock("user", "add", "ada", "--email", "ada@example.org")

    first = paddock("wallet", "limit", "ada", "--no-on-demand", "--max-gpus", "8")
    lifted = paddock("wallet", "limit", "ada", "--max-gpus", "0", "--on-demand")
    (wallet,) = json.loads(paddock("wallet", "list", "-o", "json"))

    assert first.strip() == "ada: on-demand off, GPUs of one run: 8"
    assert lifted.strip() == "ada: on-demand on, GPUs of one run: no cap of its own"
    assert wallet["max_gpus_per_run"] is None


@pytest.mark.parametrize(
    "text", ["", "ten", "0", "0.0000001", "NaN", "inf", "1e30", "1e9999999", "$5"]
)
def test_an_amount_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="no amount of dollars"):
        read_usd(text)


@settings(deadline=None)  # the machine may be busy
@given(st.integers(-(2**61), 2**61).filter(bool))
def test_an_amount_is_read_as_it_is_shown(microusd: int) -> None:
    assert read_usd(exact_usd(microusd).replace("$", "").replace(",", "")) == microusd


def test_a_password_in_the_arguments_is_refused() -> None:
    url = f"postgresql://me:{CANARY}@127.0.0.1/paddock"

    with pytest.raises(SettingsError, match="PADDOCK_DATABASE") as refused:
        choose_url(url, {})

    assert CANARY not in str(refused.value)
    assert choose_url(None, {"PADDOCK_DATABASE": url}) == url
    assert choose_url(None, {}) is None


def test_the_other_commands_start_without_the_database_libraries() -> None:
    code = "import sys, runtime.cli; print({'sqlalchemy', 'alembic', 'psycopg'} & {*sys.modules})"

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert done.stdout.strip() == "set()"
