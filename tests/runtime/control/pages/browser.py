"""A browser as far as the pages need one: it keeps cookies, follows links, fills in forms."""

import re
from dataclasses import dataclass
from typing import Any

from tests.runtime.control.api.server import ApiServer

HOME = "/dashboard"


@dataclass(kw_only=True)
class Browser:
    """Somebody who looks at the dashboard of a server."""

    server: ApiServer

    def get(self, path: str) -> Any:  # noqa: ANN401 - the test client's own
        """Load a page, without following where it sends."""
        return self.server.client.get(path, follow_redirects=False)

    def post(self, path: str, *, site: str = "", **fields: str) -> Any:  # noqa: ANN401 - as `get`
        """Send a form; `site` is where the browser says that it comes from."""
        headers = {"sec-fetch-site": site} if site else {}
        return self.server.client.post(path, data=fields, headers=headers, follow_redirects=False)

    def sign_in(self, token: str, **fields: str) -> Any:  # noqa: ANN401 - as `get`
        """Sign in by an API key."""
        return self.post(f"{HOME}/sign-in", key=token, **fields)

    def csrf(self, path: str) -> str:
        """Return the token of the form on a page that posts to the page itself."""
        text = self.get(path).text
        found = re.search(
            rf'action="{re.escape(path)}">\s*<input[^>]*value="([0-9a-f]{{64}})"', text
        )
        assert found, text
        return found[1]


def page_of(run_id: str) -> str:
    """Return the address of a run's page: the link that dispatch prints."""
    return f"{HOME}/training/{run_id}"
