"""One site of the real engine for all tests of operations, and an operator on it for each."""

from collections.abc import Iterator

import pytest

from runtime.control.store.store import Store
from tests.engine.sites import Site, make_site
from tests.runtime.control.operating.operations import Operating


@pytest.fixture(scope="session")
def operated_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster of four slots is up."""
    made = make_site(tmp_path_factory.mktemp("operated"))
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.kill_everything()


@pytest.fixture
def operating(
    operated_site: Site, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Operating]:
    """Yield an operator in this process; the test fails when anything of a run is left."""
    for name in ("PADDOCK_HOME", "PADDOCK_CACHE"):
        monkeypatch.setenv(name, operated_site.environment[name])
    found = Operating(site=operated_site, store=sqlite_store)
    yield found
    found.operator.close()
    operated_site.assert_nothing_left()
