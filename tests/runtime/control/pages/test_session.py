"""Sign-in: a cookie that scripts and other sites cannot use, and forms that only ours can send."""

import pytest

from runtime.control.store import keys
from runtime.control.values import Wish
from runtime.states import RunState
from tests.runtime.control.api.server import ApiServer, Person
from tests.runtime.control.pages.browser import HOME, Browser, page_of


def test_nobody_sees_a_page_without_signing_in(server: ApiServer, ada: Person) -> None:
    run_id = server.dispatch(ada.token)
    stranger = Browser(server=server)

    for path in (HOME, page_of(run_id), page_of("no-such-run"), f"{page_of(run_id)}/stop"):
        answer = stranger.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"] == f"{HOME}/sign-in?next={path.replace('/', '%2F')}"
        assert not answer.text


def test_the_cookie_is_for_the_pages_of_this_server_alone(server: ApiServer, ada: Person) -> None:
    answer = Browser(server=server).sign_in(ada.token, next=page_of("run-1"))

    cookie = answer.headers["set-cookie"]
    assert answer.headers["location"] == page_of("run-1")
    assert {"HttpOnly", "SameSite=strict", "Path=/dashboard"} <= set(cookie.split("; "))
    assert "Secure" not in cookie


def test_the_cookie_goes_over_tls_only_where_there_is_tls(server: ApiServer, ada: Person) -> None:
    answer = server.client.post(
        "https://testserver/dashboard/sign-in", data={"key": ada.token}, follow_redirects=False
    )

    assert "Secure" in answer.headers["set-cookie"].split("; ")


@pytest.mark.parametrize("key", ["", "pdk_unknown", "x" * 4000, "\x00", "caf\u00e9"])
def test_a_wrong_key_is_refused_and_not_repeated(server: ApiServer, key: str) -> None:
    answer = Browser(server=server).sign_in(key)

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "no valid API key" in answer.text
    assert not key or key not in answer.text


@pytest.mark.parametrize(
    "path", ["https://evil.example", "//evil.example", "/dashboard/../api", "/dashboard\\@evil", ""]
)
def test_signing_in_leads_to_no_other_site(server: ApiServer, ada: Person, path: str) -> None:
    browser = Browser(server=server)

    assert browser.sign_in(ada.token, next=path).headers["location"] == HOME
    assert "evil" not in browser.get(f"{HOME}/sign-in?next={path}").text


def test_a_revoked_key_ends_the_session(server: ApiServer, ada: Person, browser: Browser) -> None:
    assert browser.get(HOME).status_code == 200
    with server.store.write() as tx:
        (key,) = keys.list_keys(tx, ada.user.user_id)
        keys.revoke_key(tx, key.key_id)

    assert browser.get(HOME).status_code == 303


def test_signing_out_removes_the_cookie(browser: Browser) -> None:
    text = browser.get(HOME).text
    token = text.split('name="csrf" value="')[1].split('"')[0]

    assert browser.post(f"{HOME}/sign-out").status_code == 403
    assert browser.post(f"{HOME}/sign-out", csrf=token).status_code == 303
    assert browser.get(HOME).status_code == 303


def test_a_token_that_is_not_ascii_is_refused(browser: Browser) -> None:
    for odd in ("caf\u00e9", "\x00", "\u65e5" * 64):
        assert browser.post(f"{HOME}/sign-out", csrf=odd).status_code == 403


def test_a_stop_needs_the_token_of_its_form(
    server: ApiServer, ada: Person, browser: Browser
) -> None:
    run_id, other = server.dispatch(ada.token), server.dispatch(ada.token)
    path = f"{page_of(run_id)}/stop"
    token = browser.csrf(path)

    for wrong in ("", "0" * 64, browser.csrf(f"{page_of(other)}/stop"), token[:-1]):
        answer = browser.post(path, csrf=wrong)
        assert answer.status_code == 403
        assert "load the page again" in answer.text
    assert server.stored(run_id).wish is Wish.RUN

    answer = browser.post(path, csrf=token)
    assert (answer.status_code, answer.headers["location"]) == (303, page_of(run_id))
    assert server.stored(run_id).state is RunState.STOPPED
    assert server.stored(other).wish is Wish.RUN


def test_the_token_is_of_one_person(
    server: ApiServer, ada: Person, bob: Person, browser: Browser
) -> None:
    team = server.team("crew", ada.user, bob.user)
    run_id = server.dispatch(ada.token, teamId=team.team_id)
    path = f"{page_of(run_id)}/stop"
    of_ada = browser.csrf(path)
    browser.sign_in(bob.token)

    assert browser.post(path, csrf=of_ada).status_code == 403
    assert browser.post(path, csrf=browser.csrf(path)).status_code == 303


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_form_of_another_site_is_refused(
    server: ApiServer, ada: Person, browser: Browser, site: str
) -> None:
    path = f"{page_of(server.dispatch(ada.token))}/stop"

    assert browser.post(path, site=site, csrf=browser.csrf(path)).status_code == 403
    assert browser.post(f"{HOME}/sign-in", site=site, key=ada.token).status_code == 403


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a=1&" * 100, b"key=" + b"x" * 9000])
def test_a_body_that_is_no_form_is_refused(server: ApiServer, body: bytes) -> None:
    answer = server.client.post(f"{HOME}/sign-in", content=body, follow_redirects=False)

    assert answer.status_code == 400
    assert "text/html" in answer.headers["content-type"]


def test_a_bearer_header_opens_no_page_and_the_cookie_no_api(
    server: ApiServer, ada: Person, browser: Browser
) -> None:
    headers = {"Authorization": f"Bearer {ada.token}"}
    cookies = dict(browser.server.client.cookies)
    server.client.cookies.clear()

    assert server.client.get(HOME, headers=headers, follow_redirects=False).status_code == 303
    server.client.cookies.update(cookies)
    assert server.ask("GET", "/rft/runs")[0] == 401
