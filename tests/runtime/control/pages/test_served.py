"""The pages of a real server: a run of the real engine is watched, stopped and billed."""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.cookiejar import CookieJar

import pytest

from runtime import models
from tests.engine.sites import ROOT, Site, make_site
from tests.runtime.control.operating.served import RUN_S, serving
from tests.secret_search import files_with_value
from tests.waiting import wait_for

pytestmark = pytest.mark.control

EXAMPLE = ROOT / "examples" / "reverse-text.toml"
SEED_MODEL = "PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT"
CANARY = "canary-93fe2b"
PRICE = 36  # dollars an hour: a cent a second


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a site whose cluster of four slots has a price."""
    made = make_site(tmp_path_factory.mktemp("pages"))
    models.add_model(SEED_MODEL, made.folder / "model", made.environment["PADDOCK_CACHE"])
    made.pulumi("config", "set", "-s", made.cluster, "paddock:priceUsdPerHour", str(PRICE))
    made.pulumi("up", "-s", made.cluster)
    yield made
    made.kill_everything()


@dataclass(kw_only=True)
class Visitor:
    """A browser on a server's pages, and the key of its user for the API."""

    url: str
    token: str
    cookies: CookieJar = field(default_factory=CookieJar)

    def load(self, path: str, **fields: str) -> str:
        """Return a page; with fields, the one that a form leads to."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        data = urllib.parse.urlencode(fields).encode() if fields else None
        with opener.open(f"{self.url}{path}", data=data, timeout=60) as answer:
            return answer.read().decode()

    def dispatch(self, text: str, **more: object) -> str:
        """Dispatch a run by the API and return its id."""
        body = json.dumps({"configText": text, "env": {"OPENAI_API_KEY": CANARY}, **more})
        request = urllib.request.Request(
            f"{self.url}/api/v1/training/runs",
            data=body.encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["runId"]


def example(behaviour: str) -> str:
    """Return the seed's example under the name that tells the stand-in how to behave."""
    return EXAMPLE.read_text().replace('"reverse-text-hosted"', f'"{behaviour}"', 1)


def cost_of(page: str) -> float:
    """Return the dollars on a run's page."""
    found = re.search(r"<dt>Cost</dt><dd>\$([0-9.]+)</dd>", page)
    assert found, page
    return float(found[1])


def test_a_run_is_watched_stopped_and_billed(site: Site) -> None:
    site.paddock("user", "add", "ada", "--email", "ada@example.com")
    site.paddock("wallet", "credit", "ada", "250")
    token = json.loads(site.paddock("key", "add", "ada", "-o", "json").out)["token"]
    with serving(site) as served:
        ada = Visitor(url=served.url, token=token)
        assert "No runs here" in ada.load("/dashboard/sign-in", key=token, next="/dashboard")
        run_id = ada.dispatch(example("long"))
        path = f"/dashboard/training/{run_id}"
        wait_for(lambda: 'class="state RUNNING"' in ada.load(path), timeout_s=RUN_S)
        running = wait_for(
            lambda: page if cost_of(page := ada.load(path)) > 0 else None, timeout_s=RUN_S
        )
        wait_for(lambda: "$250.00" not in site.paddock("wallet", "list").out, timeout_s=90)
        token_of_form = re.search(
            rf'action="{path}/stop">\s*<input[^>]*value="([0-9a-f]+)"', ada.load(f"{path}/stop")
        )
        assert token_of_form
        ada.load(f"{path}/stop", csrf=token_of_form[1])
        wait_for(lambda: '<h1>long <span class="state STOPPED' in ada.load(path), timeout_s=RUN_S)
        wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)
        wait_for(lambda: "<dt>Resources</dt><dd>gone" in ada.load(path), timeout_s=RUN_S)
        stopped = ada.load(path)
        cost = cost_of(stopped)

    assert running is not None
    (wallet,) = json.loads(site.paddock("wallet", "list", "-o", "json").out)
    left = 250 - wallet["balance_microusd"] / 1e6
    assert 0 <= left - cost < 0.01  # the page cuts to cents
    assert "trainer" in running
    assert "wish" in stopped
    for page in (running, stopped):
        assert CANARY not in page
        assert "<script" not in page
        assert token not in page
    assert token not in "".join(served.lines)
    assert files_with_value(site.folder, CANARY) == []
    assert files_with_value(site.folder, token) == []
    site.assert_nothing_left()


def test_a_run_at_its_ceiling_is_stopped_by_the_server(site: Site) -> None:
    site.paddock("user", "add", "bob", "--email", "bob@example.com")
    site.paddock("wallet", "credit", "bob", "250")
    token = json.loads(site.paddock("key", "add", "bob", "-o", "json").out)["token"]
    with serving(site) as served:
        bob = Visitor(url=served.url, token=token)
        bob.load("/dashboard/sign-in", key=token, next="/dashboard")
        run_id = bob.dispatch(example("long"), maxSpendMicrousd=20_000)
        path = f"/dashboard/training/{run_id}"
        wait_for(lambda: 'class="state STOPPED"' in bob.load(path), timeout_s=RUN_S)
        page = bob.load(path)
        wait_for(lambda: run_id not in site.pulumi("stack", "ls").out, timeout_s=RUN_S)

    assert "stopped at its ceiling of $0.02" in page
    assert cost_of(page) >= 0.02
    site.assert_nothing_left()
