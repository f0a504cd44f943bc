"""Users and runs for the store's tests."""

from dataclasses import replace

from runtime.control.store import runs, users
from runtime.control.store.store import Store
from runtime.control.values import NewRun, StoredRun, Team, User

NEW_RUN = NewRun(
    run_id="run-1",
    user_id="",
    name="reverse-text",
    model="paddock/tiny-reverse-text",
    environments=("reverse-text",),
    config_text='name = "reverse-text"\n# caf\u00e9\n',
    config_digest="sha256:0",
    plan_json='{"num_gpus": 2}',
    settings={"cluster": "local", "volume": None, "attempt": 1},
    secret_names=("HF_TOKEN",),
    num_gpus=2,
    max_steps=100,
)


class Halfway(Exception):
    """Ends a transaction in its midst."""


def add_user(store: Store, name: str = "ada", *, is_admin: bool = False) -> User:
    """Store a user."""
    with store.write() as tx:
        return users.add_user(tx, name=name, email=f"{name}@example.org", is_admin=is_admin)


def add_team(store: Store, name: str, *members: User) -> Team:
    """Store a team with members."""
    with store.write() as tx:
        team = users.add_team(tx, name=name)
        for member in members:
            users.add_member(tx, team.team_id, member.user_id)
    return team


def add_run(store: Store, user: User, run_id: str = "run-1", **changes: object) -> StoredRun:
    """Store a run of a user."""
    run = replace(NEW_RUN, run_id=run_id, user_id=user.user_id, **changes)  # type: ignore[arg-type]  # fields by name
    with store.write() as tx:
        return runs.insert_run(tx, run)
