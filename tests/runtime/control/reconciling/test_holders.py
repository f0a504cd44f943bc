"""Which servers are taken for dead: by this host's word at once, of another one after a while."""

import pytest

from runtime.control.holders import Holders
from runtime.control.lease_keeper import TTL_S
from runtime.control.operations import server_lease

HERE, THERE = "host-a-17-0c3f9a2b", "host-b-17-77aa0e11"
NOBODY: frozenset[str] = frozenset()
BOTH = frozenset({server_lease(HERE), server_lease(THERE)})


class Looks:
    """Looks at the leases, a second apart unless told otherwise."""

    def __init__(self) -> None:
        """Look as the server of this host."""
        self.now = 0.0
        self.holders = Holders(HERE, clock=lambda: self.now)

    def look(self, living: frozenset[str], *, after_s: float = 1.0) -> bool:
        """Look again, and return whether the other host's server is dead."""
        self.now += after_s
        self.holders.note(living)
        return self.holders.is_dead(THERE)


def test_a_server_of_another_host_is_dead_once_its_lease_stayed_away_for_a_leases_time() -> None:
    looks = Looks()

    assert not looks.look(BOTH)
    dead = [looks.look(NOBODY) for _ in range(int(TTL_S) + 1)]

    assert dead == [False] * int(TTL_S) + [True]


def test_one_that_comes_back_after_the_database_did_is_not_dead() -> None:
    looks = Looks()
    looks.look(BOTH)

    assert not looks.look(NOBODY, after_s=600.0)  # nobody reached the database, and it came back
    assert not looks.look(BOTH, after_s=TTL_S / 3)
    assert not looks.look(NOBODY)


def test_looks_that_failed_in_between_count_for_nothing() -> None:
    looks = Looks()
    looks.look(NOBODY)

    assert not looks.look(NOBODY, after_s=TTL_S)
    assert not looks.look(NOBODY)


@pytest.mark.parametrize("living", [NOBODY, BOTH])
def test_a_server_of_this_host_is_dead_as_soon_as_its_lease_is_over(living: frozenset[str]) -> None:
    looks = Looks()
    looks.look(living)

    assert looks.holders.is_dead("host-a-18-99bb0e22")
    assert looks.holders.is_dead(HERE) == (living == NOBODY)
