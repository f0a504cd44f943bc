"""Questions that `paddock doctor` asks beyond discovery: rights, file server, models, image."""

from typing import TYPE_CHECKING

from runtime.cluster_settings import KubernetesClusterSettings
from runtime.errors import StackError
from runtime.kubernetes_api import ForbiddenError, KubernetesApi, KubernetesError
from runtime.kubernetes_discovery import Discovery, is_allowed
from runtime.kubernetes_models import cached_models
from runtime.kubernetes_permissions import (
    Rule,
    missing,
    operator_node_rules,
    operator_rules,
    stack_rules,
)
from runtime.kubernetes_profile import FILES_PORT, FILES_SELECTOR

if TYPE_CHECKING:
    from runtime.image import Login


def missing_access(
    api: KubernetesApi, found: Discovery, settings: KubernetesClusterSettings
) -> dict[str, tuple[str, ...]]:
    """Return what the caller may not do, by what it is needed for; add-ons only where they are."""
    served = {
        "jobset.x-k8s.io": found.jobset,
        "kueue.x-k8s.io": found.queue_api is not None,
        "scheduling.k8s.io": found.gang_api is not None,
    }
    rules: tuple[Rule, ...] = tuple(
        rule for rule in operator_rules(api.namespace) if served.get(rule.group, True)
    )
    nodes = operator_node_rules(has_node_pools=settings.node_class is not None)
    uses = {
        "runs": (rules, api.namespace),
        "nodes": (nodes, ""),
        "cluster stack": (stack_rules(), api.namespace),
    }
    return {
        use: missing(asked, namespace=where, is_allowed=lambda one: is_allowed(api, one))
        for use, (asked, where) in uses.items()
    }


def files_answer(api: KubernetesApi) -> str | None:
    """Return None when the file server answers, else why it does not."""
    try:
        pods = api.list("Pod", labels=FILES_SELECTOR)
    except ForbiddenError:
        return "its pods may not be listed"
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    if not running:
        return "no pod of it runs"
    try:
        answer = api.proxy(running[0]["metadata"]["name"], FILES_PORT, "/healthz")
        answer.read()
    except KubernetesError as error:
        return str(error)
    return None if answer.status_code == 200 else f"HTTP {answer.status_code}"


def num_cached_models(api: KubernetesApi) -> tuple[int | None, str]:
    """Return how many models were added to the cache, and what is wrong with their list.

    The number is None where the list may not be read or is broken.
    """
    try:
        return len(cached_models(api)), ""
    except ForbiddenError:
        return None, ""
    except StackError as error:
        return None, str(error)


def image_notice(api: KubernetesApi, settings: KubernetesClusterSettings, *, tag: str) -> str:
    """Return why the image has no digest, empty when it has one."""
    from runtime.image import resolve_image

    return resolve_image(settings.image, tag, _logins(api, settings)).notice


def _logins(api: KubernetesApi, settings: KubernetesClusterSettings) -> "dict[str, Login]":
    from runtime.image import pull_logins

    try:
        found = [api.get("Secret", name) for name in settings.image_pull_secrets]
    except ForbiddenError:
        return {}
    return pull_logins(secret for secret in found if secret is not None)
