"""The shared site of the engine's tests, and the rule that a test leaves nothing behind."""

from collections.abc import Iterator

import pytest

from tests.engine.sites import Site, make_site


@pytest.fixture(scope="session")
def shared_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster of four slots is up; it is brought up once."""
    made = make_site(tmp_path_factory.mktemp("site"))
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.kill_everything()


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """Yield the shared site; the test fails when anything of a run is left in it."""
    yield shared_site
    shared_site.assert_nothing_left()
