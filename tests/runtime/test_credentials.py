"""Credentials where none belongs: in addresses and requirement specs."""

import pytest

from runtime.credentials import (
    address_credential,
    check_environment,
    environment_problems,
    is_credential,
    is_credential_header,
)

CANARY = "canary-5f1d"


@pytest.mark.parametrize(
    "spec",
    [
        f"git+https://user:{CANARY}@host/x.git",
        f"git+https://{CANARY}@host/x.git@v1",
        f"git+https://{CANARY}:x-oauth-basic@host/x.git",
        f"git+https://user:{CANARY}#?@host/x.git",
        f"my-env[gpu] @ https://{CANARY}@host/x-1.0-py3-none-any.whl ; sys_platform == 'linux'",
        f"my-env @ https://host/x-1.0-py3-none-any.whl?token={CANARY}",
        f"git+ssh://git:{CANARY}@host/x.git",
        f"git+https://${{USER}}:{CANARY}@host/x.git",
        f"git+https://[{CANARY}/x.git",
    ],
)
def test_a_credential_in_a_requirement_spec_is_refused_without_it(spec: str) -> None:
    with pytest.raises(ValueError, match=r"secret GIT_TOKEN|write scheme") as caught:
        check_environment(spec)

    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        "my-env==1.2",
        "my-env[gpu]>=1,<2; python_version < '3.13'",
        "owner/other@1.0",
        "git+https://host/x.git@v1.0#egg=x",
        "git+ssh://git@host/x.git",
        "git+https://${GIT_TOKEN}@host/x.git",
        "git+https://oauth2:${GIT_TOKEN}@host/x.git",
        "my-env @ https://host/x-1.0-py3-none-any.whl?token=${GIT_TOKEN}",
        "my-env @ https://host/x-1.0-py3-none-any.whl#sha256=0f0f",
        "/volume/wheels/x-1.0-py3-none-any.whl",
        "my_env [gpu] >= 1",
        "my.env (>=1)",
        "e",
    ],
)
def test_a_requirement_spec_without_one_passes_as_it_stands(spec: str) -> None:
    assert check_environment(spec) == spec


@pytest.mark.parametrize(
    "spec",
    [
        "-r /etc/passwd",
        "--index-url",
        "",
        " my-env",
        "two names",
        "a b==1",
        "my-env==1\n-r x",
        "../x",
    ],
)
def test_what_no_installer_reads_is_no_requirement_spec(spec: str) -> None:
    with pytest.raises(ValueError, match="is no requirement spec"):
        check_environment(spec)


def test_a_problem_of_environments_says_which_and_what_kind() -> None:
    found = environment_problems(["my-env", "-r x", f"git+https://{CANARY}@host/x.git"])

    assert [(one.loc, one.code) for one in found] == [
        (("environments", 1), "environment"),
        (("environments", 2), "secret"),
    ]


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://judge:8000/v1", None),
        ("judge:8000", None),
        ("https://user:pw@host/v1", "a user or password before the @"),
        ("user:pw@host:8000", "a user or password before the @"),
        ("https://host/v1?key=abc", "a credential in the query, key"),
        ("https://host/v1?model=a@b", None),
    ],
)
def test_the_credential_of_an_address_is_named_by_its_part(address: str, found: str | None) -> None:
    assert address_credential(address) == found


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("JUDGE_API_KEY", "abc", True),
        ("VLLM_API_KEY", "EMPTY", False),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", False),
        ("TOKENIZERS_PARALLELISM", "yes", False),
    ],
)
def test_a_variable_is_a_credential_by_name_unless_its_value_cannot_be_one(
    name: str, value: str, told: bool
) -> None:
    assert is_credential(name, value) is told


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("Authorization", "Bearer abc", True),
        ("AUTHORIZATION", "Basic abc", True),
        ("proxy-authorization", "abc", True),
        ("Cookie", "session=abc", True),
        ("x-api-key", "abc", True),
        ("X-Auth-Token", "abc", True),
        ("Authorization", "Bearer EMPTY", False),
        ("Authorization", "", False),
        ("Ocp-Apim-Subscription-Key", "abc", True),
        ("X-Goog-Api-Key", "abc", True),
        ("apikey", "abc", True),
        ("X-Webhook-Secret", "abc", True),
        ("X-Forwarded-Authorization", "abc", True),
        ("PRIVATE-TOKEN", "abc", True),
        ("X-Vault-Token", "abc", True),
        ("Idempotency-Key", "abc", False),
        ("X-Routing-Key", "abc", False),
        ("X-Cache-Key", "abc", False),
        ("X-Partition-Key", "abc", False),
        ("X-Max-Token", "abc", False),
        ("X-Session-ID", "abc", False),
        ("Accept", "application/json", False),
    ],
)
def test_a_header_is_a_credential_by_name_in_any_case(name: str, value: str, told: bool) -> None:
    assert is_credential_header(name, value) is told
