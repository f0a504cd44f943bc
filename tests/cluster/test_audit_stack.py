"""A private registry's password stays in the Secret that the user made for it (cases.md 4)."""

import base64
import dataclasses
import json
from collections.abc import Iterator

import pytest

from runtime.control.dispatch import new_stack
from tests.cluster.sites import LAB, ClusterSite, cluster_settings, open_api
from tests.waiting import wait_for

pytestmark = pytest.mark.cluster

RUN, CLUSTER, SECRET = "run-private", "private", "registry"
PASSWORD = "canary-7c21e4d8-word"
LOGIN = base64.b64encode(f"team:{PASSWORD}".encode()).decode()
CONFIG = json.dumps({"auths": {"registry.example": {"auth": LOGIN, "password": PASSWORD}}})


@pytest.fixture
def private(site: ClusterSite) -> Iterator[ClusterSite]:
    """Yield the site in a namespace of its own, whose image is pulled with a password."""
    namespace = site.kubernetes.make_namespace("private")
    context = site.kubernetes.kubectl("config", "current-context").strip()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "any", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(CONFIG.encode()).decode()},
    }
    site.kubernetes.apply(claim, secret)
    settings = cluster_settings(
        context,
        namespace,
        runVolumeClaim="any",
        image="registry.example/prime-rl",
        imagePullSecrets=json.dumps([SECRET]),
    )
    site.new_cluster(CLUSTER, settings)
    api = open_api(site.kubernetes, context, namespace)
    yield dataclasses.replace(site, api=api, namespace=namespace)
    site.pulumi("destroy", "-s", CLUSTER)
    api.close()
    site.kubernetes.delete_namespace(namespace)


def holds(text: str) -> bool:
    """Tell whether a text has the password, plain or in any alignment of base64, once or twice."""
    found = [PASSWORD, LOGIN]
    for value in (PASSWORD, LOGIN):
        for offset in range(3):
            encoded = base64.b64encode(b"\0" * offset + value.encode()).decode()
            found.append(encoded[(4 if offset else 0) : -4])
    return any(spelling in text for spelling in found)


def test_a_registrys_password_is_in_its_own_secret_only(private: ClusterSite) -> None:
    site = private
    toml = site.write_toml(RUN, "long")
    site.paddock("stack", "new", RUN, toml.name, "--cluster", CLUSTER)
    printed = site.pulumi("preview", "--diff", "-s", RUN).text
    printed += site.pulumi("up", "--diff", "-s", RUN).text
    labels = {"paddock.dev/run": RUN}
    pods = wait_for(lambda: site.api.list("Pod", labels=labels))
    objects = [one for one in site.objects() if one["metadata"]["name"] != SECRET]
    state = site.pulumi("stack", "export", "-s", RUN).out
    files = [path for path in site.folder.rglob("*") if path.is_file()]
    site.pulumi("destroy", "-s", RUN)

    assert all(pod["spec"]["imagePullSecrets"] == [{"name": SECRET}] for pod in pods)
    assert "registry.example gave no digest" in printed
    assert not holds(printed)
    assert not holds(state)
    assert [one["metadata"]["name"] for one in objects if holds(json.dumps(one))] == []
    assert [path for path in files if holds(path.read_bytes().decode("latin-1"))] == []
    assert site.api.get("Secret", SECRET) is not None


def test_a_second_cluster_stack_in_a_namespace_is_refused_in_one_line(site: ClusterSite) -> None:
    context = site.kubernetes.kubectl("config", "current-context").strip()
    new_stack(site.project, "second", cluster_settings(context, site.namespace))

    refused = site.pulumi("preview", "-s", "second", expect=None)

    assert refused.code != 0
    assert f"namespace {site.namespace} is that of cluster stack {LAB}" in refused.text
    assert "Traceback" not in refused.text
