"""The services of a real server on a store, over a cluster that is a value: nothing is performed.

Dispatch, intents, readings, volumes and the catalog are those that `paddock serve` has; only the
operator takes operations and does nothing, so a run is brought along by the test.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.control.app import create_app
from runtime.control.artifact_store import DirectoryStore
from runtime.control.assembly import Parts, api_services
from runtime.control.lease_keeper import LeaseKeeper
from runtime.control.run_places import ClusterPlaces
from runtime.control.run_sources import RunSources
from runtime.control.stack_facts import NoStacks
from runtime.control.store.store import Store
from tests.runtime.control.api.server import GENEROUS, ApiServer, Person, TestClient
from tests.runtime.control.operating.dispatching import Dispatching, config
from tests.runtime.control.reading.run_files import write_run

CLUSTER = "dev"


@dataclass(kw_only=True)
class RealServer(ApiServer):
    """An application over real services; `folder` has the cluster and its run volume."""

    folder: Path

    def running(self, person: Person) -> str:
        """Dispatch a run, write its files, and say that it is RUNNING."""
        status, answer = self.ask(
            "POST", "/training/runs", person.token, json={"configText": config()}
        )
        assert status == 201, answer
        run_id = answer["runId"]
        shutil.copytree(self.folder / "written" / "runs" / "run-1", self.folder / "runs" / run_id)
        changes = {"state": "RUNNING", "cluster": CLUSTER, "queue_number": None}
        self.change(run_id, changes)
        return run_id


@contextmanager
def real_server(store: Store, folder: Path) -> Iterator[RealServer]:
    """Serve a store that has one local cluster of four slots."""
    given = Dispatching(store=store, folder=folder)
    given.add_cluster(CLUSTER)
    write_run(folder / "written")
    with LeaseKeeper(store, "test-server") as keeper:
        places = ClusterPlaces(given.clusters)
        places.refresh()
        parts = Parts(  # type: ignore[arg-type] # as far as the services use them
            store=store,
            keeper=keeper,
            clusters=given.clusters,
            stacks=NoStacks(),
            places=places,
            operator=given.operator,
            sources=RunSources(given.clusters, DirectoryStore(folder / "artifacts")),
        )
        services = api_services(parts)  # as `running` puts them together, without its loops
        app = create_app(services, limits=GENEROUS)
        yield RealServer(
            store=store, services=services, app=app, client=TestClient(app), folder=folder
        )
        places.close()
