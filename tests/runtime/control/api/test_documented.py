"""docs/api.md lists every route of the API, and none that is not there."""

import re
from pathlib import Path

from tests.runtime.control.api.server import API, ApiServer

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "api.md"
ROW = re.compile(r"^\| `([A-Z]+) (/\S+)` \|", re.MULTILINE)


def test_the_document_lists_every_route(server: ApiServer) -> None:
    paths = server.app.openapi()["paths"]
    served = {
        (method.upper(), path.removeprefix(API))
        for path, methods in paths.items()
        for method in methods
    }

    assert set(ROW.findall(DOCUMENT.read_text())) == served
