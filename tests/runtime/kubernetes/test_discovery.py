"""What discovery asks, and that an answer which is not allowed is said instead of a failure."""

from itertools import chain

import pytest

from runtime.kubernetes_api import KubernetesApi, Manifest, UnreachableError
from runtime.kubernetes_discovery import Wanted, discover, is_allowed, storage_class_fact
from runtime.kubernetes_permissions import (
    Access,
    Rule,
    accesses,
    missing,
    operator_node_rules,
    operator_rules,
    reconcile_rules,
    stack_rules,
)
from tests.runtime.kubernetes.fake_api import FakeApi
from tests.runtime.kubernetes.test_offers import node

DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
LATE = "WaitForFirstConsumer"


@pytest.fixture
def served(fake: FakeApi) -> FakeApi:
    """Let the fake have a version and a node, and no add-on."""
    fake.objects["/version"] = {"gitVersion": "v1.37.2"}
    fake.put("/api/v1/namespaces/lab", {"status": {"phase": "Active"}})
    fake.put("/api/v1/nodes/n0", node("n0"))
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    fake.put(f"{classes}/fast", {"metadata": {"annotations": DEFAULT}})
    fake.put(f"{classes}/late", {"volumeBindingMode": LATE})
    return fake


def test_a_bare_cluster_has_nodes_and_classes_and_no_add_on(
    api: KubernetesApi, served: FakeApi
) -> None:
    claims = "/api/v1/namespaces/lab/persistentvolumeclaims"
    served.put(f"{claims}/runs", {"spec": {"accessModes": ["ReadWriteMany"]}})

    found = discover(api, Wanted(claims=("runs", "absent")))

    assert (found.version, found.namespace_phase) == ("v1.37.2", "Active")
    assert found.nodes is not None
    assert found.storage_classes is not None
    assert [(one.name, one.is_default, one.is_late) for one in found.storage_classes] == [
        ("fast", True, False),
        ("late", False, True),
    ]
    assert list(found.claims) == ["runs"]
    assert found.claims["runs"].is_shared
    assert (found.queue_api, found.jobset, found.gang_api) == (None, False, None)
    assert found.unread == ()


def test_the_cluster_stack_of_a_namespace_is_known_by_its_operator_account(
    api: KubernetesApi, served: FakeApi
) -> None:
    path = "/api/v1/namespaces/lab/serviceaccounts/paddock-operator"

    assert discover(api, Wanted()).owner is None
    served.put(path, {"metadata": {"labels": {"paddock.dev/cluster": "other"}}})
    assert discover(api, Wanted()).owner == "other"


def test_the_newest_api_that_is_served_is_taken(api: KubernetesApi, served: FakeApi) -> None:
    served.objects["/apis/kueue.x-k8s.io/v1beta1"] = {"resources": [{"kind": "LocalQueue"}]}
    served.objects["/apis/jobset.x-k8s.io/v1alpha2"] = {"resources": [{"kind": "JobSet"}]}
    served.objects["/apis/scheduling.k8s.io/v1beta1"] = {"resources": [{"kind": "PodGroup"}]}
    served.put("/apis/kueue.x-k8s.io/v1beta1/namespaces/lab/localqueues/runs", {})

    found = discover(api, Wanted())

    assert (found.queue_api, found.queues) == ("kueue.x-k8s.io/v1beta1", ("runs",))
    assert found.jobset
    assert found.gang_api == "scheduling.k8s.io/v1beta1"


@pytest.mark.parametrize("part", ["storageclasses", "nodes", "priorityclasses"])
def test_what_may_not_be_read_is_named(api: KubernetesApi, served: FakeApi, part: str) -> None:
    served.fail("GET", part, 403, reason="Forbidden", message="denied", times=5)

    found = discover(api, Wanted(priority_class="high"))

    assert len(found.unread) == 1
    assert part in found.unread[0]
    unknown = {
        "storageclasses": found.storage_classes,
        "nodes": found.nodes,
        "priorityclasses": found.has_priority_class,
    }
    assert unknown[part] is None


def test_a_server_that_does_not_answer_is_an_error(api: KubernetesApi, fake: FakeApi) -> None:
    fake.fail("GET", "version", 503, times=10)

    with pytest.raises(UnreachableError):
        discover(api, Wanted())


def test_a_missing_priority_class_is_told_from_an_unread_one(
    api: KubernetesApi, served: FakeApi
) -> None:
    assert discover(api, Wanted(priority_class="high")).has_priority_class is False


def test_a_class_says_what_it_is() -> None:
    fact = storage_class_fact({"metadata": {"name": "x"}})

    assert (fact.name, fact.is_default, fact.is_late) == ("x", False, False)


def test_the_api_is_asked_for_each_right(
    api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(verb="get", group="", resource="pods/log", namespace="lab")
    asked = []

    def create(_kind: str, manifest: Manifest) -> Manifest:
        asked.append(manifest["spec"]["resourceAttributes"])
        return {"status": {"allowed": len(asked) == 1}}

    monkeypatch.setattr(api, "create", create)

    assert is_allowed(api, access)
    assert not is_allowed(api, access)
    assert (asked[0]["resource"], asked[0]["subresource"]) == ("pods", "log")


def test_a_right_that_may_not_be_asked_for_counts_as_missing(
    api: KubernetesApi, fake: FakeApi
) -> None:
    fake.fail("POST", "selfsubjectaccessreviews", 403, reason="Forbidden")

    assert not is_allowed(api, Access(verb="get", group="", resource="pods", namespace="lab"))


def test_a_right_is_said_as_kubectl_says_it() -> None:
    one = Access(verb="create", group="batch", resource="jobs", namespace="lab")
    two = Access(verb="get", group="", resource="pods/log", namespace="lab")

    assert (str(one), str(two)) == ("create jobs.batch", "get pods/log")


def test_each_verb_and_resource_is_a_right_of_its_own() -> None:
    rule = Rule("", ("pods", "events"), ("get", "list"))

    said = missing((rule,), namespace="lab", is_allowed=lambda one: one.verb == "get")

    assert len(list(accesses((rule,), namespace="lab"))) == 4
    assert said == ("list pods", "list events")


def test_no_rule_has_a_wildcard_or_touches_what_is_not_a_runs() -> None:
    rules = chain(
        operator_rules("lab"),
        reconcile_rules("paddock-files"),
        operator_node_rules(has_node_pools=True),
        stack_rules(),
    )

    for rule in rules:
        assert "*" not in (*rule.verbs, *rule.resources, rule.group)
        assert "persistentvolumeclaims" not in rule.resources or "delete" not in rule.verbs
        assert "namespaces" not in rule.resources or rule.verbs == ("get",)
