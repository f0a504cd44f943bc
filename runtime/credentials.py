"""What looks like a credential where none belongs: variables, headers, addresses, package specs.

Of a package spec its spelling is judged, too. Pure, on text alone. What is judged here is stored
and shown as it was written; values that a run needs come as secrets (`runtime.secret_rules`).
Called by the rules of configs, stacks and requests.
"""

import re
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

from runtime.errors import Problem

_CREDENTIAL = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|API_?KEY|(?:^|_)(?:TOKEN|PAT|KEY)$"
)
_FILE_NAME = re.compile(r"_(?:FILE|PATH|DIR)$")
_NO_SECRETS = frozenset({"", "0", "1", "true", "false", "none", "empty"})
_HEADER = re.compile(r"API_?KEY|PASSWORD|PASSWD|SECRET|AUTHORIZATION")
_HEADERS = frozenset(
    {
        *("cookie", "x-auth-key", "x-auth-token", "x-access-token", "x-api-token"),
        *("x-session-token", "x-security-token", "x-amz-security-token", "x-vault-token"),
        *("private-token", "job-token", "deploy-token", "x-github-token", "x-gitlab-token"),
        *("x-hf-token", "x-functions-key", "x-subscription-token", "ocp-apim-subscription-key"),
    }
)
"""By name, since most others that end in -key or -token are none: idempotency-key, x-cache-key."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PACKAGE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SPEC = re.compile(
    rf"{_PACKAGE} *(?:\[[^\[\]]*\] *)?(?:[(<>=!~;@].*)?"  # PEP 508, without its last word on it
    rf"|{_PACKAGE}/{_PACKAGE}(?:@\S+)?"
    rf"|{_ADDRESS.pattern}.*"
    r"|/.+"
)
REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
"""A variable that stands for its value: uv puts one in; in a file of secrets `prime` does."""


def is_credential_name(name: str) -> bool:
    """Tell whether a variable's name looks like that of a password, key or token."""
    upper = _upper(name)
    return bool(_CREDENTIAL.search(upper)) and not _FILE_NAME.search(upper)


def _upper(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper())


def is_credential(name: str, value: str) -> bool:
    """Tell whether a variable may be a credential: by its name, unless its value cannot be one.

    vLLM's clients send "EMPTY" where a server asks for no key, and some switches end in _TOKEN.
    """
    return is_credential_name(name) and value.strip().lower() not in _NO_SECRETS


def is_credential_header(name: str, value: str) -> bool:
    """Tell whether a header of HTTP is a credential: by its name, in any case.

    One whose value says that no key is asked for (`Bearer EMPTY`) is none.
    """
    if name.strip().lower() not in _HEADERS and not _HEADER.search(_upper(name)):
        return False
    return value.strip().lower().removeprefix("bearer ").strip() not in _NO_SECRETS


def address_credential(address: str) -> str | None:
    """Return which part of an address is a credential, in words; None where none is.

    A part that is a reference `${NAME}` is none, nor is the user of ssh without a password.
    Raises ValueError for what is no address.
    """
    address = address if "://" in address else f"//{address}"
    parts = urlsplit(address)
    # Up to the first slash: a password written with # or ? would end urlsplit's part of it.
    userinfo, at, _ = address.partition("//")[2].partition("/")[0].rpartition("@")
    user, _, password = userinfo.partition(":")
    secret = password or ("" if parts.scheme.endswith("ssh") else user)
    if at and secret and not REFERENCE.fullmatch(secret):
        return "a user or password before the @"
    for name, value in parse_qsl(parts.query):
        if is_credential(name, value) and not REFERENCE.fullmatch(value):
            return f"a credential in the query, {name[:40]}"
    return None


def check_environment(spec: str) -> str:
    """Return the requirement spec of an environment.

    Raises ValueError where it has a credential, or no installer could read it.

    uv, which installs it in the pod, puts the run's secrets in for references like `${GIT_TOKEN}`.
    """
    for address in _ADDRESS.findall(spec):
        try:
            found = address_credential(address)
        except ValueError:
            raise ValueError("the address in it is none: write scheme://host/path") from None
        if found:
            raise ValueError(
                f"it holds {found}, and is stored and shown as written: change that credential, "
                "pass the new one as a secret GIT_TOKEN, and write ${GIT_TOKEN} in its place"
            )
    if not _SPEC.fullmatch(spec):
        raise ValueError(
            "is no requirement spec: write NAME, NAME==1.2, OWNER/NAME, an address such as "
            "git+https://host/x, or a path from /"
        )
    return spec


def environment_problems(specs: Sequence[str]) -> list[Problem]:
    """Return a problem for each requirement spec that is none, or holds a credential."""
    problems = []
    for index, spec in enumerate(specs):
        try:
            check_environment(spec)
        except ValueError as error:
            code = "secret" if _SPEC.fullmatch(spec) else "environment"
            problems.append(Problem(loc=("environments", index), message=str(error), code=code))
    return problems
