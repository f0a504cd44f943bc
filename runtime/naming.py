"""Every name and label of paddock: runs, stacks, components, resources, environment marks.

Pure functions over plain values. Nobody else builds a name by hand; paths are in
`runtime.artifacts`.
"""

import hashlib
import re
import secrets

PROJECT = "paddock"
"""The Pulumi project's name, and the namespace of its configuration keys."""

RUN_ID_PATTERN = re.compile(r"[a-z][a-z0-9-]{2,52}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SLUG_REJECTS = re.compile(r"[^a-z0-9]+")

MAX_NAME_CHARS = 63
"""The length limit of a DNS-1035 label, and so of Services and pods."""

LABEL_PREFIX = "paddock.dev"
LABEL_RUN = f"{LABEL_PREFIX}/run"
LABEL_ATTEMPT = f"{LABEL_PREFIX}/attempt"
LABEL_COMPONENT = f"{LABEL_PREFIX}/component"
LABEL_CLUSTER = f"{LABEL_PREFIX}/cluster"
LABEL_SERVER = f"{LABEL_PREFIX}/server"
LABEL_VOLUME = f"{LABEL_PREFIX}/volume"
LABEL_CONTROL_PLANE = f"{LABEL_PREFIX}/control-plane"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"

ENV_RUN_MARK = "PADDOCK_RUN_MARK"
"""Environment variable that every process of a local run carries; a sweep finds them by it."""

ENV_COMPONENT = "PADDOCK_COMPONENT"
"""Environment variable that names the component a process belongs to."""

ENV_REPEATED_UPDATE = "PADDOCK_REPEATED_UPDATE"
"""Environment variable of an update that a control plane repeats where it is killed."""

TRAINER = "trainer"
INFERENCE = "inference"
ORCHESTRATOR = "orchestrator"
ENV_SERVER = "env"
ROUTER = "router"


def is_run_id(text: str) -> bool:
    """Tell whether the text is a run id: 3 to 53 of a-z, 0-9 and '-', a letter first."""
    return RUN_ID_PATTERN.fullmatch(text) is not None and not text.endswith("-")


def is_one_line(text: str) -> bool:
    """Tell whether a text is one line that can be stored and shown, in whatever script.

    It holds no control character (Cc), no half of a surrogate pair (Cs), and no other line break.
    """
    return _UNPRINTABLE.search(text) is None


def new_run_id() -> str:
    """Return a fresh run id of 24 characters, a letter first."""
    alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
    head = secrets.choice(alphabet[:26])
    return head + "".join(secrets.choice(alphabet) for _ in range(23))


def slug(text: str, max_chars: int = MAX_NAME_CHARS) -> str:
    """Return a DNS-1035 label for any text: itself where it is one, else a slug with a hash.

    Two different texts never give the same label (the hash is over the whole text), and
    the result is at most `max_chars` long.
    """
    cleaned = _SLUG_REJECTS.sub("-", text.lower()).strip("-")
    if cleaned == text and cleaned[:1].isalpha() and len(cleaned) <= max_chars:
        return cleaned
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    if not cleaned[:1].isalpha():
        cleaned = f"x-{cleaned}".rstrip("-")
    return f"{cleaned[: max_chars - 9].rstrip('-')}-{digest}"


def component_name(
    role: str, *, index: int = 0, split: str = "", source: str = "", part: str = ""
) -> str:
    """Return a component's name within its run: `trainer-0`, `inference-1`, `env-train-math`.

    The name stands in status files, resource names and `paddock components`; a run has one trainer
    component a node, one inference component an engine (pods: a node), one env server a source.
    `part` tells prefill and decode apart: `inference-prefill-0`.
    """
    if role == ENV_SERVER:
        return f"{ENV_SERVER}-{split}-{slug(source, 40)}"
    if role in {ORCHESTRATOR, ROUTER}:
        return role
    return f"{role}-{part}-{index}" if part else f"{role}-{index}"


def run_mark(home_id: str, run_id: str, attempt: int) -> str:
    """Return the value of ENV_RUN_MARK for one attempt of a local run of one PADDOCK_HOME."""
    return f"{home_id}/{run_id}/{attempt}"


def run_labels(run_id: str, attempt: int, component: str) -> dict[str, str]:
    """Return the labels that everything of a run carries where labels exist."""
    return {
        LABEL_MANAGED_BY: PROJECT,
        LABEL_RUN: run_id,
        LABEL_ATTEMPT: str(attempt),
        LABEL_COMPONENT: component,
    }


def cluster_labels(cluster: str) -> dict[str, str]:
    """Return the labels of what a cluster stack makes: it belongs to no run."""
    return {LABEL_MANAGED_BY: PROJECT, LABEL_CLUSTER: slug(cluster)}


def volume_labels(cluster: str, volume: str) -> dict[str, str]:
    """Return the labels of the claim that a volume stack makes."""
    return {**cluster_labels(cluster), LABEL_VOLUME: slug(volume)}
