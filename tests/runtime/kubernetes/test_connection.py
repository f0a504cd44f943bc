"""The caller's kubeconfig: several files, tokens in files, exec plugins, and what goes wrong."""

import os
import stat
from pathlib import Path

import pytest

from runtime.cluster import KubernetesConnection
from runtime.errors import SettingsError
from runtime.kubernetes_api import KubernetesApi, KubernetesError
from tests.runtime.kubernetes.fake_api import FakeApi, connect, write_kubeconfig

PODS = "/api/v1/namespaces/lab/pods"


def test_a_context_that_is_not_there_is_named(fake: FakeApi) -> None:
    with pytest.raises(SettingsError, match="no usable context 'elsewhere'"):
        KubernetesApi.connect(KubernetesConnection(context="elsewhere", namespace="lab"))


def test_several_kubeconfigs_are_one(
    fake: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "deep" / "other"
    other.parent.mkdir()
    (other.parent / "token").write_text("from-a-file\n")
    write_kubeconfig(other, f"http://127.0.0.1:{fake.port}", user={"tokenFile": "token"})
    missing = tmp_path / "missing"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(missing), str(other)]))

    KubernetesApi.connect(KubernetesConnection(context="fake", namespace="lab")).list("Pod")

    assert fake.requests[-1].headers["Authorization"] == "Bearer from-a-file"


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('token: "SECRET', "line 3, column 1"),
        ("token: *SECRET", "line 2, column 12"),
        ("token: !SECRET x", "line 2, column 12"),
        ("token: SECRET\a", "not YAML"),
    ],
)
def test_a_kubeconfig_that_is_not_yaml_is_named_without_its_text(
    tmp_path: Path, line: str, where: str
) -> None:
    path = tmp_path / "broken"
    path.write_text(f"users:\n  - {line}\n")

    with pytest.raises(SettingsError) as caught:
        connect(path)

    assert str(path) in str(caught.value)
    assert where in str(caught.value)
    assert "SECRET" not in str(caught.value)


def plugin(tmp_path: Path, version: str, script: str) -> dict:
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    apiversion = f"client.authentication.k8s.io/{version}"
    return {"exec": {"apiVersion": apiversion, "command": str(path), "args": []}}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_plugins_token_is_renewed_when_it_is_refused(
    fake: FakeApi, tmp_path: Path, version: str
) -> None:
    script = f"""
echo x >> {tmp_path}/asked
case "$KUBERNETES_EXEC_INFO" in *{version}*) ;; *) exit 9;; esac
n=$(wc -l < {tmp_path}/asked)
echo '{{"status": {{"token": "t'$n'"}}}}'"""
    user = plugin(tmp_path, version, script)
    config = write_kubeconfig(tmp_path / "exec", f"http://127.0.0.1:{fake.port}", user=user)
    api = connect(config)
    fake.fail("GET", PODS, 401, reason="Unauthorized")

    api.list("Pod")
    api.list("Pod")

    assert [one.headers["Authorization"] for one in fake.requests] == [
        "Bearer t1",
        "Bearer t2",
        "Bearer t2",
    ]


def test_a_plugin_that_fails_is_named_without_its_output(fake: FakeApi, tmp_path: Path) -> None:
    user = plugin(tmp_path, "v1", "echo a-secret-token; echo a-secret-token >&2; exit 3")
    config = write_kubeconfig(tmp_path / "exec", f"http://127.0.0.1:{fake.port}", user=user)

    with pytest.raises(KubernetesError, match=r"exit code 3|no credential") as caught:
        connect(config).list("Pod")

    assert "a-secret-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "scheme"),
    [({"username": "ann", "password": "w"}, "Basic YW5uOnc="), ({"token": "t"}, "Bearer t")],
)
def test_a_caller_is_known_by_what_the_kubeconfig_says(
    fake: FakeApi, tmp_path: Path, user: dict, scheme: str
) -> None:
    connect(write_kubeconfig(tmp_path / "own", server(fake), user=user)).list("Pod")

    assert fake.requests[-1].headers["Authorization"] == scheme


def test_a_caller_without_credentials_is_nobody(fake: FakeApi, tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "own", server(fake), user={"name": "nobody"})

    connect(config).list("Pod")

    assert "Authorization" not in fake.requests[-1].headers


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"auth-provider": {"name": "gcp"}}, "auth-provider was removed"),
        ({"token": "t", "as": "admin", "as-groups": ["ops"]}, "support its as, as-groups: use"),
        ({"client-certificate": "gone.pem", "client-key": "gone.key"}, "No such file"),
        ({"client-certificate-data": "@@", "client-key-data": "@@"}, "no usable context"),
    ],
)
def test_credentials_that_cannot_be_used_are_named(
    fake: FakeApi, tmp_path: Path, user: dict, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        connect(write_kubeconfig(tmp_path / "own", server(fake), user=user))


def test_a_server_that_is_to_be_known_by_another_name_is_refused(
    fake: FakeApi, tmp_path: Path
) -> None:
    path = write_kubeconfig(tmp_path / "own", server(fake))
    path.write_text(
        path.read_text().replace("    server:", "    tls-server-name: api\n    server:")
    )

    with pytest.raises(SettingsError, match="support its tls-server-name"):
        connect(path)


def test_a_plugin_that_gives_a_certificate_is_told_from_one_that_wants_a_login(
    fake: FakeApi, tmp_path: Path
) -> None:
    user = plugin(tmp_path, "v1", """echo '{"status": {"clientCertificateData": "canary"}}'""")
    api = connect(write_kubeconfig(tmp_path / "exec", server(fake), user=user))

    with pytest.raises(KubernetesError, match="gives a client certificate") as caught:
        api.list("Pod")

    assert "canary" not in str(caught.value)


def test_a_token_is_read_again_when_its_file_changes(fake: FakeApi, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    user = {"tokenFile": "token"}
    api = connect(write_kubeconfig(tmp_path / "own", server(fake), user=user))

    api.list("Pod")
    (tmp_path / "token").write_text("second")
    api.list("Pod")

    assert [one.headers["Authorization"] for one in fake.requests] == [
        "Bearer first",
        "Bearer second",
    ]


def server(fake: FakeApi) -> str:
    return f"http://127.0.0.1:{fake.port}"
