"""The addresses of the dashboard: sign-in, the list, a run, its stop."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import PlainTextResponse

from runtime.control.auth import ServicesDep, StateDep
from runtime.control.dashboard.html import (
    STYLE,
    TEMPLATES,
    PageRoute,
    redirect,
    render,
)
from runtime.control.dashboard.run_page import queue_words, read_page, refreshes
from runtime.control.dashboard.session import (
    HOME,
    SIGN_IN,
    FormDep,
    ViewedRunDep,
    ViewerDep,
    safe_path,
    sign_in,
    sign_out,
)
from runtime.control.store.run_lists import RunFilter

PAGE_SIZE = 50
router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/")
@router.get(f"{HOME}/")
def lead_home() -> Response:
    """Lead whoever opens the address that `paddock serve` prints, or a slash more, to the list."""
    return redirect(HOME)


@router.get(STYLE)
def style() -> Response:
    """Return the style sheet, which is no secret."""
    text = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return PlainTextResponse(text, media_type="text/css", headers={"Cache-Control": "max-age=300"})


@router.get(SIGN_IN)
def sign_in_form(next_path: Annotated[str, Query(alias="next")] = HOME) -> Response:
    """Ask for an API key."""
    return render("sign_in.html", next_path=safe_path(next_path), is_wrong=False)


@router.post(SIGN_IN)
def sign_in_by_key(request: Request, services: ServicesDep, form: FormDep) -> Response:
    """Take an API key, and go on to where the person wanted to go."""
    next_path = safe_path(form.get("next", ""))
    response = redirect(next_path)
    if sign_in(request, services, form.get("key", "").strip(), response):
        return response
    return render("sign_in.html", status=401, next_path=next_path, is_wrong=True)


@router.post(f"{HOME}/sign-out")
def end_session(request: Request, viewer: ViewerDep, form: FormDep) -> Response:
    """Forget the key."""
    viewer.check_csrf(request.url.path, form)
    response = redirect(SIGN_IN)
    sign_out(response)
    return response


@router.get(HOME)
def list_runs(
    viewer: ViewerDep,
    services: ServicesDep,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """List the runs that the viewer may see, newest first."""
    wanted = RunFilter(visible_to=viewer.caller.user)
    found = services.runs.page(wanted, offset=(page - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    num_pages = max(1, -(-found.total // PAGE_SIZE))
    return render(
        "runs.html",
        viewer=viewer,
        runs=found.runs,
        now=datetime.now(UTC),
        total=found.total,
        page=page,
        num_pages=num_pages,
        refresh=15 if any(not run.is_over for run in found.runs) else None,
    )


@router.get(f"{HOME}/training/{{run_id}}")
def show_run(run: ViewedRunDep, viewer: ViewerDep, state: StateDep) -> Response:
    """Show a run."""
    page = read_page(state, run, user_id=viewer.caller.user.user_id)
    return render(
        "run.html",
        viewer=viewer,
        page=page,
        run=run,
        queue=queue_words(page.num_ahead),
        stop_path=f"{HOME}/training/{run.run_id}/stop",
        refresh=refreshes(run.state, is_over=run.is_over),
    )


@router.get(f"{HOME}/training/{{run_id}}/stop")
def confirm_stop(request: Request, run: ViewedRunDep, viewer: ViewerDep) -> Response:
    """Ask whether a run is to be stopped; its own page reloads, a form there would be lost."""
    csrf = viewer.csrf_token(request.url.path)
    return render("stop.html", viewer=viewer, run=run, path=request.url.path, csrf=csrf)


@router.post(f"{HOME}/training/{{run_id}}/stop")
def stop_run(
    request: Request, run: ViewedRunDep, viewer: ViewerDep, services: ServicesDep, form: FormDep
) -> Response:
    """Stop a run, as `prime train stop` does."""
    viewer.check_csrf(request.url.path, form)
    services.intents.stop(viewer.caller.user, run.run_id)
    return redirect(f"{HOME}/training/{run.run_id}")
