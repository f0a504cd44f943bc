"""Users, teams and who is a member of which."""

import secrets

from sqlalchemy import Connection, or_, select

from runtime import naming
from runtime.control.store import keys
from runtime.control.store.columns import insert, insert_new, now
from runtime.control.store.tables import members, teams, users
from runtime.control.values import Team, User
from runtime.errors import ConflictError, NotFoundError

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_USER = [column for column in users.c if column is not users.c.created_at]
_TEAM = [column for column in teams.c if column is not teams.c.created_at]


def add_user(
    connection: Connection, *, name: str, email: str, is_admin: bool = False, slug: str = ""
) -> User:
    """Make a user; raises ConflictError when the email or the slug is taken."""
    user = User(
        user_id=_new_id(),
        name=name,
        email=email.strip().lower(),
        is_admin=is_admin,
        slug=naming.slug(slug or name),
    )
    row = insert(connection, users).values(
        user_id=user.user_id,
        name=user.name,
        email=user.email,
        is_admin=user.is_admin,
        slug=user.slug,
        created_at=now(),
    )
    if not insert_new(connection, row):
        raise ConflictError(
            f"there is a user with the email {user.email} or the slug {user.slug}: choose another "
            "(--slug)"
        )
    return user


def get_user(connection: Connection, user_id: str) -> User | None:
    """Return a user by id."""
    row = connection.execute(select(*_USER).where(users.c.user_id == user_id)).mappings().first()
    return User(**row) if row else None


def find_user(connection: Connection, text: str) -> User:
    """Return the user of an id, an email or a slug; raises NotFoundError."""
    keys = (users.c.user_id == text, users.c.email == text.strip().lower(), users.c.slug == text)
    row = connection.execute(select(*_USER).where(or_(*keys))).mappings().first()
    if row is None:
        raise NotFoundError(f"no user {text}: `paddock user list` shows all")
    return User(**row)


def list_users(connection: Connection) -> list[User]:
    """Return all users, the oldest first."""
    rows = connection.execute(
        select(*_USER).order_by(users.c.created_at, users.c.user_id)
    ).mappings()
    return [User(**row) for row in rows]


def add_team(connection: Connection, *, name: str, slug: str = "") -> Team:
    """Make a team without members; raises ConflictError when the slug is taken."""
    team = Team(team_id=_new_id(), name=name, slug=naming.slug(slug or name))
    row = insert(connection, teams).values(
        team_id=team.team_id, name=team.name, slug=team.slug, created_at=now()
    )
    if not insert_new(connection, row):
        raise ConflictError(f"there is a team with the slug {team.slug}: choose another (--slug)")
    return team


def get_team(connection: Connection, team_id: str) -> Team | None:
    """Return a team by id."""
    row = connection.execute(select(*_TEAM).where(teams.c.team_id == team_id)).mappings().first()
    return Team(**row) if row else None


def find_team(connection: Connection, text: str) -> Team:
    """Return the team of an id or a slug; raises NotFoundError."""
    is_it = or_(teams.c.team_id == text, teams.c.slug == text)
    row = connection.execute(select(*_TEAM).where(is_it)).mappings().first()
    if row is None:
        raise NotFoundError(f"no team {text}: `paddock team list` shows all")
    return Team(**row)


def list_teams(connection: Connection, user_id: str | None = None) -> list[Team]:
    """Return all teams, or those of one user, the oldest first."""
    query = select(*_TEAM).order_by(teams.c.created_at, teams.c.team_id)
    if user_id is not None:
        query = query.join(members, members.c.team_id == teams.c.team_id)
        query = query.where(members.c.user_id == user_id)
    return [Team(**row) for row in connection.execute(query).mappings()]


def add_member(connection: Connection, team_id: str, user_id: str) -> None:
    """Make a user a member of a team; who is one already stays one."""
    row = insert(connection, members).values(team_id=team_id, user_id=user_id)
    insert_new(connection, row)


def remove_member(connection: Connection, team_id: str, user_id: str) -> bool:
    """Take a user out of a team and revoke their keys of it; tell whether they were a member.

    The keys of one who left before are revoked too.
    """
    keys.revoke_team_keys(connection, user_id=user_id, team_id=team_id)
    is_it = (members.c.team_id == team_id) & (members.c.user_id == user_id)
    return connection.execute(members.delete().where(is_it)).rowcount > 0


def is_member(connection: Connection, team_id: str, user_id: str) -> bool:
    """Tell whether a user is a member of a team."""
    is_it = (members.c.team_id == team_id) & (members.c.user_id == user_id)
    return connection.execute(select(members.c.user_id).where(is_it)).first() is not None


def list_members(connection: Connection, team_id: str) -> list[User]:
    """Return the members of a team, the oldest first."""
    query = select(*_USER).join(members, members.c.user_id == users.c.user_id)
    query = query.where(members.c.team_id == team_id)
    rows = connection.execute(query.order_by(users.c.created_at, users.c.user_id)).mappings()
    return [User(**row) for row in rows]


def _new_id() -> str:
    # the `prime` client's `config set-team-id` takes nothing but c and 24 of a-z, 0-9
    return "c" + "".join(secrets.choice(_ALPHABET) for _ in range(24))
