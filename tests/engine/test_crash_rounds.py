"""The rounds of `make crash`, on the shared cluster."""

import os
import random

import pytest

from tests.engine.crash_rounds import play_all
from tests.engine.sites import Site


@pytest.mark.crash
def test_rounds_of_kills_at_random_moments_leave_nothing(shared_site: Site) -> None:
    num_rounds = int(os.environ.get("PADDOCK_CRASH_ROUNDS", "5"))
    seed = int(os.environ.get("PADDOCK_CRASH_SEED") or random.SystemRandom().randrange(10_000))

    play_all(shared_site, num_rounds, seed)
