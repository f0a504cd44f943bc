"""Users, teams and API keys."""

import re

import pytest
from sqlalchemy import select

from runtime.control.store import keys, users
from runtime.control.store.store import Store
from runtime.control.store.tables import api_keys
from runtime.errors import ConflictError, NotFoundError
from tests.runtime.control.store.rows import add_team, add_user


def test_a_user_is_found_by_id_email_and_slug(store: Store) -> None:
    ada = add_user(store, "Ada Lovelace", is_admin=True)

    with store.read() as tx:
        found = [
            users.find_user(tx, text)
            for text in (ada.user_id, "ada lovelace@EXAMPLE.org", ada.slug)
        ]
        assert users.get_user(tx, ada.user_id) == ada
        assert users.get_user(tx, "nobody") is None
        with pytest.raises(NotFoundError, match="nobody"):
            users.find_user(tx, "nobody")

    assert found == [ada, ada, ada]
    assert ada.is_admin


def test_ids_are_what_the_prime_client_takes(store: Store) -> None:
    ada = add_user(store)
    team = add_team(store, "lab")

    assert re.fullmatch(r"c[a-z0-9]{24}", team.team_id)
    assert re.fullmatch(r"c[a-z0-9]{24}", ada.user_id)


def test_emails_and_slugs_are_taken_once(store: Store) -> None:
    add_user(store, "ada")
    add_team(store, "lab")

    for name, email, slug in (("x", "ADA@example.org", "x"), ("x", "x@example.org", "ada")):
        with pytest.raises(ConflictError, match="--slug"), store.write() as tx:
            users.add_user(tx, name=name, email=email, slug=slug)
    with pytest.raises(ConflictError, match="lab"):
        add_team(store, "lab")
    with store.read() as tx:
        assert len(users.list_users(tx)) == 1
        assert len(users.list_teams(tx)) == 1


def test_members_come_and_go(store: Store) -> None:
    ada, bob = add_user(store, "ada"), add_user(store, "bob")
    lab, other = add_team(store, "lab", ada, bob), add_team(store, "other", bob)
    with store.write() as tx:
        users.add_member(tx, lab.team_id, ada.user_id)  # who is one already
        removed = users.remove_member(tx, lab.team_id, bob.user_id)
        again = users.remove_member(tx, lab.team_id, bob.user_id)

    with store.read() as tx:
        assert users.list_members(tx, lab.team_id) == [ada]
        assert users.list_teams(tx, bob.user_id) == [other]
        assert users.is_member(tx, lab.team_id, ada.user_id)
        assert not users.is_member(tx, lab.team_id, bob.user_id)
        assert users.find_team(tx, "lab") == users.get_team(tx, lab.team_id) == lab
        with pytest.raises(NotFoundError, match="nobody"):
            users.find_team(tx, "nobody")
    assert (removed, again) == (True, False)


def test_who_leaves_a_team_leaves_the_keys_of_it(store: Store) -> None:
    ada, bob = add_user(store, "ada"), add_user(store, "bob")
    lab, other = add_team(store, "lab", ada, bob), add_team(store, "other", bob)
    with store.write() as tx:
        made = {
            (user.slug, team_id): keys.add_key(tx, user_id=user.user_id, name="", team_id=team_id)
            for user, team_id in (
                (bob, lab.team_id),
                (bob, other.team_id),
                (bob, None),
                (ada, lab.team_id),
            )
        }
        users.remove_member(tx, lab.team_id, bob.user_id)
        users.add_member(tx, lab.team_id, bob.user_id)

        opens = {whose for whose, (_, token) in made.items() if keys.find_key(tx, token)}

    assert opens == set(made) - {("bob", lab.team_id)}


def test_a_token_opens_until_it_is_revoked(store: Store) -> None:
    ada = add_user(store)
    team = add_team(store, "lab", ada)
    with store.write() as tx:
        key, token = keys.add_key(tx, user_id=ada.user_id, name="laptop", team_id=team.team_id)

    with store.read() as tx:
        assert keys.find_key(tx, token) == key
        assert keys.find_key(tx, token + "x") is None
        assert keys.find_key(tx, "") is None
    with store.write() as tx:
        revoked = keys.revoke_key(tx, key.key_id)
        again = keys.revoke_key(tx, key.key_id)
    with store.read() as tx:
        assert keys.find_key(tx, token) is None
        (listed,) = keys.list_keys(tx, ada.user_id)

    assert (revoked, again) == (True, False)
    assert listed.revoked_at is not None
    assert listed.team_id == team.team_id


def test_a_token_is_kept_nowhere(store: Store) -> None:
    ada = add_user(store)
    with store.write() as tx:
        key, token = keys.add_key(tx, user_id=ada.user_id, name="laptop")

    with store.read() as tx:
        row = tx.execute(select(api_keys)).one()

    assert token.startswith(key.prefix)
    assert len(token) - len(key.prefix) >= 32
    assert not any(token in str(value) for value in row)
