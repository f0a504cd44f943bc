"""What a cluster stack makes and keeps: namespace, claims, token; on an API in this process."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.k8s import claim as claims
from infra.k8s.claim import KeptClaim, KeptClaimProvider, Volume, VolumeProvider
from infra.k8s.namespace import AdoptedNamespaceProvider
from infra.k8s.token import FilesTokenProvider
from policies import rules
from runtime.errors import NotFoundError, StackError
from runtime.kubernetes_api import KubernetesError
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api

INPUTS = {"context": "fake", "namespace": "lab", "labels": {"a": "b"}}
CLAIM = {**INPUTS, "claim": "runs", "size": "1Ti", "storageClass": None, "mustExist": False}
CLAIM_PATH = "/api/v1/namespaces/lab/persistentvolumeclaims/runs"
NAMESPACE_PATH = "/api/v1/namespaces/lab"
TOKEN = {**INPUTS, "secret": "paddock-files", "key": "token"}
TOKEN_PATH = "/api/v1/namespaces/lab/secrets/paddock-files"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    with serve_fake_api(tmp_path) as (made, _api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield made


def claim(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - property values
    return {**CLAIM, **values}


def test_a_namespace_is_made_where_it_is_missing_and_never_deleted(fake: FakeApi) -> None:
    provider = AdoptedNamespaceProvider()

    made = provider.create(dict(INPUTS))
    provider.delete(str(made.id), made.outs or {})

    assert (made.outs or {})["adopted"] is False
    assert fake.objects[NAMESPACE_PATH]["metadata"]["labels"] == {"a": "b"}


def test_a_namespace_that_is_there_is_adopted_as_it_is(fake: FakeApi) -> None:
    fake.put(NAMESPACE_PATH, {"metadata": {"labels": {"owner": "team"}}})

    made = AdoptedNamespaceProvider().create(dict(INPUTS))

    assert (made.outs or {})["adopted"] is True
    assert fake.objects[NAMESPACE_PATH]["metadata"]["labels"] == {"owner": "team"}


def test_a_namespace_that_is_being_deleted_is_refused(fake: FakeApi) -> None:
    fake.put(NAMESPACE_PATH, {"metadata": {"deletionTimestamp": "2026-11-29T10:00:00Z"}})

    result = AdoptedNamespaceProvider().check({}, dict(INPUTS))

    assert "namespace lab is being deleted" in result.failures[0].reason


def test_a_lost_namespace_is_seen_by_a_refresh(fake: FakeApi) -> None:
    provider = AdoptedNamespaceProvider()

    assert provider.read("lab", dict(INPUTS)).id == ""
    fake.put(NAMESPACE_PATH, {})
    assert provider.read("lab", dict(INPUTS)).id == "lab"


def test_a_claim_is_made_shared_and_of_the_default_class(fake: FakeApi) -> None:
    inputs = {key: value for key, value in claim().items() if value is not None}  # as they arrive
    made = KeptClaimProvider().create(inputs)

    spec = fake.objects[CLAIM_PATH]["spec"]
    assert spec == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Ti"}},
    }
    assert (made.id, (made.outs or {})["adopted"]) == ("runs", False)
    assert fake.count("GET", "storageclasses") == 0


def test_a_claim_that_is_there_is_adopted_and_both_kinds_stay(fake: FakeApi) -> None:
    fake.put(CLAIM_PATH, {"spec": {"accessModes": ["ReadWriteOnce"]}})

    for provider in (KeptClaimProvider(), VolumeProvider()):
        made = provider.create(claim(mustExist=True))
        assert (made.outs or {})["adopted"] is True
        provider.delete("runs", made.outs or {})

    assert fake.count("DELETE") == 0


def test_an_up_that_is_repeated_takes_its_own_claim_for_its_own(fake: FakeApi) -> None:
    for provider in (KeptClaimProvider(), VolumeProvider()):
        provider.create(claim())  # and the engine was killed before it wrote that down
        made = provider.create(claim()).outs or {}
        assert made["adopted"] is False

    assert KeptClaimProvider().diff("runs", made, claim(size="2Ti")).changes
    assert (VolumeProvider().create(claim(mustExist=True)).outs or {})["adopted"] is True
    assert (VolumeProvider().create(claim(labels={"a": "c"})).outs or {})["adopted"] is True
    VolumeProvider().delete("runs", made)
    assert CLAIM_PATH not in fake.objects


def test_a_claim_of_a_cluster_stack_stays_although_the_stack_made_it(fake: FakeApi) -> None:
    provider = KeptClaimProvider()

    made = provider.create(claim())
    provider.delete("runs", made.outs or {})

    assert CLAIM_PATH in fake.objects


def test_a_claim_to_adopt_that_is_missing_is_refused_by_name(fake: FakeApi) -> None:
    with pytest.raises(NotFoundError, match="namespace lab has no claim runs"):
        KeptClaimProvider().create(claim(mustExist=True))

    assert fake.paths() == []


def test_a_claim_that_is_being_deleted_is_refused_with_what_holds_it(fake: FakeApi) -> None:
    metadata = {"deletionTimestamp": "x", "finalizers": ["kubernetes.io/pvc-protection"]}
    fake.put(CLAIM_PATH, {"metadata": metadata})

    with pytest.raises(StackError, match=r"held by kubernetes\.io/pvc-protection"):
        KeptClaimProvider().create(claim())


def test_a_claim_grows_and_its_refusal_is_the_apis_own(fake: FakeApi) -> None:
    provider = KeptClaimProvider()
    made = provider.create(claim()).outs or {}

    assert provider.diff("runs", made, claim(size="2Ti")).changes
    assert not provider.diff("runs", made, claim()).changes
    assert not provider.diff("runs", {**made, "adopted": True}, claim(size="2Ti")).changes
    provider.update("runs", made, claim(size="2Ti"))
    assert fake.objects[CLAIM_PATH]["spec"]["resources"]["requests"]["storage"] == "2Ti"

    words = "only dynamically provisioned pvc can be resized and the class must support resize"
    fake.fail("PATCH", "runs", 403, reason="Forbidden", message=words)
    with pytest.raises(StackError, match=r"claim runs stays at 1Ti: .* must support resize$"):
        provider.update("runs", made, claim(size="3Ti"))
    fake.fail("PATCH", "runs", 503, times=9, message="etcd is away")
    with pytest.raises(KubernetesError, match="etcd is away"):
        provider.update("runs", made, claim(size="3Ti"))


def test_a_volumes_claim_goes_once_it_may(fake: FakeApi) -> None:
    provider = VolumeProvider()
    made = provider.create(claim()).outs or {}

    for _ in range(2):
        provider.delete("runs", made)

    assert CLAIM_PATH not in fake.objects


def test_a_volume_that_pods_hold_is_named_and_stays_in_state(
    fake: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_GONE_WITHIN_S", 0.2)
    provider = VolumeProvider()
    made = provider.create(claim()).outs or {}
    fake.objects[CLAIM_PATH]["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]

    with pytest.raises(StackError, match=r"held by kubernetes\.io/pvc-protection: end the pods"):
        provider.delete("runs", made)

    assert fake.objects[CLAIM_PATH]["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


def test_a_token_is_drawn_once_and_is_no_property(fake: FakeApi) -> None:
    provider = FilesTokenProvider()

    first = provider.create(dict(TOKEN))
    token = fake.objects[TOKEN_PATH]["stringData"]["token"]
    second = provider.create(dict(TOKEN))
    others = provider.create({**TOKEN, "labels": {"a": "c"}})

    assert len(base64.urlsafe_b64decode(f"{token}==")) >= 32
    assert fake.objects[TOKEN_PATH]["stringData"]["token"] == token
    adopted = [(one.outs or {})["adopted"] for one in (first, second, others)]
    assert adopted == [False, False, True]
    assert token not in str([first.outs, second.outs])


def test_a_token_goes_with_the_stack_that_made_it(fake: FakeApi) -> None:
    provider = FilesTokenProvider()
    made = provider.create(dict(TOKEN)).outs or {}

    provider.delete("paddock-files", {**made, "adopted": True})
    assert TOKEN_PATH in fake.objects
    provider.delete("paddock-files", made)
    assert TOKEN_PATH not in fake.objects


def test_the_policies_know_a_volumes_claim() -> None:
    assert f"pulumi-python:{Volume._resource_type_name}" in rules.VOLUMES
    assert f"pulumi-python:{KeptClaim._resource_type_name}" not in rules.VOLUMES
