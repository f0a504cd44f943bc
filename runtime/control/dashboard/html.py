"""Templates to HTML, the headers of every page, and errors as pages instead of JSON."""

import logging
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from runtime.control.dashboard.session import HOME, SIGN_IN, SignInNeededError, Viewer, safe_path
from runtime.control.dashboard.wording import clock, span
from runtime.control.errors_http import detail_of, status_of, store_error
from runtime.control.money import usd
from runtime.control.store.store import DATABASE_AWAY
from runtime.errors import PaddockError

TEMPLATES = Path(__file__).with_name("templates")
STYLE = f"{HOME}/style.css"
SEE_OTHER = 303

HEADERS = {
    # no script at all, nothing from elsewhere, in no frame
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_LOG = logging.getLogger(__name__)
Handler = Callable[[Request], Coroutine[Any, Any, Response]]  # Any: asyncio's own


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,  # names, reasons and logs are whatever a user or a model wrote
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"clock": clock, "usd": usd}
    made.globals |= {"home": HOME, "sign_in_path": SIGN_IN, "style": STYLE, "span": span}
    return made


def render(
    name: str, *, viewer: Viewer | None = None, status: int = 200, **values: object
) -> HTMLResponse:
    """Return a page made of a template."""
    sign_out = f"{HOME}/sign-out"
    text = (
        _environment()
        .get_template(name)
        .render(
            viewer=viewer,
            sign_out_path=sign_out,
            sign_out_csrf=viewer.csrf_token(sign_out) if viewer else "",
            **values,
        )
    )
    return HTMLResponse(text, status)


def redirect(path: str) -> RedirectResponse:
    """Return an answer that sends the browser on with a GET."""
    return RedirectResponse(path, SEE_OTHER)


class PageRoute(APIRoute):
    """A route whose answers carry the pages' headers, and whose errors are pages."""

    def get_route_handler(self) -> Handler:
        """Return the handler with both around it."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                response = await handle(request)
            except SignInNeededError as error:
                query = urlencode({"next": safe_path(error.path)})
                response = redirect(f"{SIGN_IN}?{query}")
            except RequestValidationError:
                response = _problem(400, "this address is wrong")
            except PaddockError as error:
                response = _problem(status_of(error), detail_of(error))
            except DATABASE_AWAY as error:
                away = store_error(error)
                _LOG.error("a page cannot be shown: %s", away)
                response = _problem(status_of(away), detail_of(away))
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return answer


def _problem(status: int, detail: str | list[dict[str, object]]) -> Response:
    text = detail if isinstance(detail, str) else "; ".join(str(one["msg"]) for one in detail)
    return render("problem.html", status=status, code=status, detail=text)
