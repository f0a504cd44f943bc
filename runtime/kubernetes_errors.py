"""Errors of the Kubernetes API as types of ours, made from its Status objects.

Pure. A message holds the API's own words, the verb and the object; never a header or a body that
was sent. Raised by `runtime.kubernetes_api`, caught by whoever can act on a status or a reason.
"""

import json
from dataclasses import dataclass

from runtime.errors import PaddockError


class KubernetesError(PaddockError):
    """The Kubernetes API refused a request; `reason` is the API's word (Conflict, NotFound ...)."""

    code = "kubernetes"

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        """Keep the HTTP status and the API's reason beside the message."""
        super().__init__(message)
        self.status = status
        self.reason = reason

    @property
    def is_conflict(self) -> bool:
        """Tell whether somebody else changed the object in between."""
        return self.reason == "Conflict"

    @property
    def already_exists(self) -> bool:
        """Tell whether an object of this name is there already."""
        return self.reason == "AlreadyExists"

    @property
    def is_expired(self) -> bool:
        """Tell whether a resource version is too old to list or watch from: list again."""
        return self.status == 410


class ForbiddenError(KubernetesError):
    """The caller's credentials may not do this."""

    code = "kubernetes_forbidden"


class UnreachableError(KubernetesError):
    """The API server does not answer: no connection, a time-out, or 5xx after retries."""

    code = "kubernetes_unreachable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What was asked of which cluster, for messages: `get jobs.batch run-1 in namespace lab`."""

    verb: str
    resource: str
    name: str = ""
    namespace: str = ""
    cluster: str = ""

    def __str__(self) -> str:
        """Return the request in words."""
        name = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{name}{where}"

    @property
    def prefix(self) -> str:
        """Return what a message begins with: the cluster, where it is known."""
        return f"{self.cluster}: " if self.cluster else ""


def answer_error(asked: Asked, status: int, body: bytes) -> KubernetesError:
    """Return the error of an answer of 400 or more."""
    reason, message = _status(body)
    words = message or body[:300].decode("utf-8", "replace").strip() or f"HTTP {status}"
    if status == 403 and reason in {"Forbidden", ""} and not _is_of_admission(words):
        return ForbiddenError(
            f"{asked.prefix}not allowed to {asked}: {words}. Ask for a role with verb "
            f"{asked.verb} on {asked.resource}",
            status=status,
            reason=reason or "Forbidden",
        )
    if status == 401:
        words = "the credentials of the kubeconfig are not accepted: log in again"
    kind = UnreachableError if status in {502, 503, 504} or status == 500 else KubernetesError
    return kind(f"{asked.prefix}{asked}: {words}", status=status, reason=reason)


def silence_error(asked: Asked, cause: Exception) -> UnreachableError:
    """Return the error of a server that did not answer."""
    words = str(cause) or type(cause).__name__
    return UnreachableError(
        f"{asked.prefix}the Kubernetes API does not answer ({asked}: {words}): "
        "check the network and the kubeconfig's server"
    )


def watch_error(asked: Asked, status: dict[str, object]) -> KubernetesError:
    """Return the error in an ERROR event of a watch."""
    code = status.get("code")
    return answer_error(asked, code if isinstance(code, int) else 500, json.dumps(status).encode())


def _status(body: bytes) -> tuple[str, str]:
    """Return (reason, message) of a Status object, empty where the body is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return "", ""
    if not isinstance(found, dict) or found.get("kind") != "Status":
        return "", ""
    return str(found.get("reason") or ""), str(found.get("message") or "")


def is_status(body: bytes) -> bool:
    """Tell whether a body is the API's own Status object, not that of a server behind it."""
    return _status(body) != ("", "")


def _is_of_admission(message: str) -> bool:
    """Tell the refusal of a quota, or to resize a claim, which is 403 too, from a missing role."""
    return "exceeded quota" in message or "must support resize" in message
