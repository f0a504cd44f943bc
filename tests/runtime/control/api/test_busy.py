"""A server whose readings hang still says that it lives, and a busy cluster is told in words."""

import asyncio
import threading
from dataclasses import replace

import anyio.to_thread
import httpx

from runtime.control.app import create_app
from runtime.control.errors_http import BusyError
from runtime.control.readings import Progress
from runtime.control.values import StoredRun
from tests.runtime.control.api.fake_readings import FakeReads
from tests.runtime.control.api.server import ApiServer, Person, TestClient

WAIT_S = 60.0


class BusyReads(FakeReads):
    """Has no room for a reader."""

    def progress(self, run: StoredRun) -> Progress:
        """Send the reader away."""
        raise BusyError("cluster east is asked by 8 requests already", retry_after_s=5)


def test_a_busy_cluster_is_a_503_that_says_when_to_come_again(
    server: ApiServer, ada: Person
) -> None:
    run_id = server.dispatch(ada.token)
    client = TestClient(create_app(replace(server.services, reads=BusyReads())))
    headers = {"Authorization": f"Bearer {ada.token}"}

    answer = client.get(f"/api/v1/rft/runs/{run_id}/progress", headers=headers)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["detail"] == "cluster east is asked by 8 requests already"


def test_a_server_whose_threads_all_wait_says_that_it_lives(server: ApiServer) -> None:
    go, hangs = threading.Event(), threading.Event()

    class Hanging:
        def problems(self) -> tuple[str, ...]:
            hangs.set()
            assert go.wait(WAIT_S)
            return ()

    app = create_app(replace(server.services, health=Hanging()))

    async def ask() -> int:
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            waiting = asyncio.create_task(client.get("/readyz"))
            try:
                while not hangs.is_set():
                    await asyncio.sleep(0.01)
                return (await asyncio.wait_for(client.get("/healthz"), WAIT_S / 4)).status_code
            finally:
                go.set()
                await waiting

    assert asyncio.run(ask()) == 200
