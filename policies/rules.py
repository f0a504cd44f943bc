"""The rules that judge paddock's stacks: pure predicates over plain property values.

No Pulumi here: `policies/__main__.py` turns the engine's resources into `Subject`s and reports what
the rules yield. A property that is not known at preview is `manifests.UNKNOWN`; a rule that needs
it says so as a violation, so that nothing passes because it could not be read. Messages name keys
and run ids, never another value: the engine hands secrets over in clear.

To add a rule: a function here, its line in RESOURCE_RULES or STACK_RULES, its test.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from policies import manifests
from runtime import limits, naming

RUN_SPEC = "pulumi-python:dynamic/paddock:RunSpec"
OF_A_RUN = (
    RUN_SPEC,
    "pulumi-python:dynamic/paddock/local:RunFiles",
    "pulumi-python:dynamic/paddock/local:Process",
)
"""Dynamic resources of a run: each has the inputs `runId` and `attempt`."""

VOLUMES = (
    "pulumi-python:dynamic/paddock/local:Volume",
    "pulumi-python:dynamic/paddock/k8s:Volume",
    "kubernetes:core/v1:PersistentVolumeClaim",
    "aws:fsx/lustreFileSystem:LustreFileSystem",
    "aws:efs/fileSystem:FileSystem",
)
"""Storage that outlives runs."""

KUBERNETES = ("kubernetes:", "pulumi-python:dynamic/paddock/k8s:GangJob")
"""Prefixes of types whose inputs are a Kubernetes object."""

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
NOT_OF_A_RUN = ("pulumi:", f"{naming.PROJECT}:")
"""Prefixes of types that need not depend on a RunSpec: the engine's own, and components."""

MAX_GPUS_KEY = "maxGpusPerRun"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A resource as a rule sees it; `depends_on` holds URNs and is known to stack rules only."""

    urn: str
    type: str
    stack: str
    props: Mapping[str, Any]  # Any: JSON values, or UNKNOWN
    is_protected: bool = False
    depends_on: frozenset[str] = frozenset()


Config = Mapping[str, Any]  # Any: JSON values of --policy-pack-config


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceRule:
    """A rule over one resource; it holds before the resource is created."""

    name: str
    description: str
    judge: Callable[[Subject, Config], Iterator[str]]
    config_schema: dict[str, dict[str, Any]] = field(default_factory=dict)  # Any: JSON schema


@dataclass(frozen=True, kw_only=True, slots=True)
class StackRule:
    """A rule over all resources of a stack; yields a message and the URN that it is about."""

    name: str
    description: str
    judge: Callable[[Sequence[Subject]], Iterator[tuple[str, str]]]


def gpu_cap(subject: Subject, config: Config) -> Iterator[str]:
    """Refuse a run of more GPUs than the cap; the configured cap can only lower the platform's."""
    if subject.type != RUN_SPEC:
        return
    cap = min(int(config.get(MAX_GPUS_KEY, limits.MAX_GPUS_PER_RUN)), limits.MAX_GPUS_PER_RUN)
    num_gpus = _number(subject, "numGpus")
    if num_gpus is None:
        yield "numGpus must be a number that is known at preview: it comes from the run's plan"
    elif num_gpus > cap:
        yield f"{num_gpus:g} GPUs, over the cap of {cap} GPUs a run: use fewer nodes or replicas"


def run_identity(subject: Subject, _config: Config) -> Iterator[str]:
    """Refuse a resource of a run whose `runId` is not its stack, or that has no attempt."""
    if subject.type not in OF_A_RUN:
        return
    if subject.props.get("runId") != subject.stack:
        yield f"input runId must be the stack's name, {subject.stack}, and known at preview"
    attempt = _number(subject, "attempt")
    if attempt is None or attempt < 1:
        yield "input attempt must be a number from 1, known at preview"


def volume_protected(subject: Subject, _config: Config) -> Iterator[str]:
    """Refuse storage that Pulumi would delete without `pulumi state unprotect`."""
    if subject.type in VOLUMES and not subject.is_protected:
        yield "a volume outlives its runs: declare it with protect=True"


def no_literal_credential(subject: Subject, _config: Config) -> Iterator[str]:
    """Refuse an environment value or a ConfigMap entry whose name looks like a credential's."""
    for path in manifests.literal_credentials(subject.props):
        yield f"{path} looks like a credential: put it into the run's Secret and use envFrom"
    if not subject.type.startswith(KUBERNETES):
        return
    for path in manifests.unreadable_parts(subject.props):
        yield f"{path} is not known at preview, and may hold environment values: give it in plain"
    data = subject.props.get("data")
    if subject.type == CONFIG_MAP and isinstance(data, Mapping):
        for key in data:
            if manifests.is_credential_name(str(key)):
                yield f"data.{key} looks like a credential: put it into the run's Secret"


def one_run_spec(subjects: Sequence[Subject]) -> Iterator[tuple[str, str]]:
    """Refuse a run without its RunSpec, of two attempts, or that owns storage."""
    specs = [subject for subject in subjects if subject.type == RUN_SPEC]
    attempts = {_number(spec, "attempt") for spec in specs}
    for subject in subjects:
        if subject.type in OF_A_RUN and not specs:
            yield "belongs to a run, and the stack has no RunSpec", subject.urn
        elif subject.type in OF_A_RUN and _number(subject, "attempt") not in attempts:
            yield "input attempt differs from that of the stack's RunSpec", subject.urn
        elif subject.type in VOLUMES and specs:
            yield "a run stack owns no storage: give the volume a stack of its own", subject.urn
    for spec in specs[1:]:
        yield "a second RunSpec: a run stack has one", spec.urn


def run_labels(subjects: Sequence[Subject]) -> Iterator[tuple[str, str]]:
    """Refuse a Kubernetes object or pod template of a run without the labels of its run."""
    spec = next((subject for subject in subjects if subject.type == RUN_SPEC), None)
    if spec is None:
        return
    attempt = _number(spec, "attempt")
    if attempt is None:
        return  # run_identity refuses the stack
    for subject in subjects:
        if not subject.type.startswith(KUBERNETES):
            continue
        for path, manifest in [("", subject.props), *manifests.pod_templates(subject.props)]:
            wrong = _wrong_labels(manifest, run_id=spec.stack, attempt=int(attempt))
            if wrong:
                yield (
                    f"{path}metadata.labels: {', '.join(wrong)} missing or not the run's",
                    subject.urn,
                )


def depends_on_run_spec(subjects: Sequence[Subject]) -> Iterator[tuple[str, str]]:
    """Refuse a resource of a run that is not behind its RunSpec: a refusal would not reach it."""
    specs = {subject.urn for subject in subjects if subject.type == RUN_SPEC}
    if not specs:
        return
    direct = {subject.urn: subject.depends_on for subject in subjects}
    for subject in subjects:
        if subject.urn in specs or subject.type.startswith(NOT_OF_A_RUN):
            continue
        if not specs & _reachable(subject.urn, direct):
            yield "does not depend on the stack's RunSpec: add it to depends_on", subject.urn


RESOURCE_RULES = (
    ResourceRule(
        name="gpu-cap",
        description="A run asks for no more GPUs than the platform's cap.",
        judge=gpu_cap,
        config_schema={
            MAX_GPUS_KEY: {
                "type": "integer",
                "minimum": 1,
                "maximum": limits.MAX_GPUS_PER_RUN,
                "default": limits.MAX_GPUS_PER_RUN,
            }
        },
    ),
    ResourceRule(
        name="run-identity",
        description="Everything of a run names its run and its attempt.",
        judge=run_identity,
    ),
    ResourceRule(
        name="volume-protected",
        description="Storage that outlives runs is protected.",
        judge=volume_protected,
    ),
    ResourceRule(
        name="no-literal-credential",
        description="A credential reaches a container through a Secret only.",
        judge=no_literal_credential,
    ),
)

STACK_RULES = (
    StackRule(
        name="one-run-spec",
        description="A run stack has one RunSpec, one attempt and no storage.",
        judge=one_run_spec,
    ),
    StackRule(
        name="run-labels",
        description="Every Kubernetes object of a run carries the labels of the run.",
        judge=run_labels,
    ),
    StackRule(
        name="depends-on-run-spec",
        description="Everything of a run depends on its RunSpec.",
        judge=depends_on_run_spec,
    ),
)


def _number(subject: Subject, key: str) -> float | None:
    value = subject.props.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _wrong_labels(manifest: Mapping[str, Any], *, run_id: str, attempt: int) -> list[str]:
    metadata = manifest.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    found = labels if isinstance(labels, Mapping) else {}
    expected = naming.run_labels(run_id, attempt, "any")
    component = found.get(naming.LABEL_COMPONENT)
    if isinstance(component, str) and component:
        expected[naming.LABEL_COMPONENT] = component
    return [key for key, value in expected.items() if found.get(key) != value]


def _reachable(urn: str, direct: Mapping[str, frozenset[str]]) -> frozenset[str]:
    found: set[str] = set()
    waiting = [urn]
    while waiting:
        for dependency in direct.get(waiting.pop(), frozenset()) - found:
            found.add(dependency)
            waiting.append(dependency)
    return frozenset(found)
