"""Refusals of what a run needs besides GPUs: image, model, storage, environments, endpoints."""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from runtime import limits
from runtime.cluster import ClusterProfile
from runtime.errors import Problem
from runtime.launch.first_checkpoint import MissingError, choose
from runtime.plan import RunPlan
from runtime.refusals.code import Code
from runtime.resume_from import parse_resume_from
from runtime.situation import Snapshot

_IMAGE_TAG = re.compile(
    rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{limits.MAX_IMAGE_TAG_CHARS - 1}}}(@sha256:[0-9a-f]{{64}})?"
)


def image_tag(plan: RunPlan) -> Iterator[Problem]:
    """The image tag is one."""
    if not _IMAGE_TAG.fullmatch(plan.image_tag):
        yield Problem(
            loc=("image_tag",),
            message=f"{plan.image_tag[:60]!r} is not an image tag: letters, digits, _ . -, at most "
            f"{limits.MAX_IMAGE_TAG_CHARS}, a letter, digit or _ first",
            fix=f'for example image_tag = "{limits.DEFAULT_IMAGE_TAG}", without the image\'s name',
            code=Code.IMAGE_TAG,
        )


def model(plan: RunPlan, profile: ClusterProfile, snapshot: Snapshot) -> Iterator[Problem]:
    """The model is cached, on the volume, or may be downloaded."""
    if snapshot.model_path is not None:
        return
    may_download = profile.model_download and not plan.model.startswith("/")
    reasons = list((_gated if may_download else _absent)(plan, profile, snapshot))
    if reasons and snapshot.models_unread:  # what is cached is refused for neither
        what = f"nobody can tell whether cluster {profile.name} has {plan.model}"
        yield Problem(message=f"{what}: {snapshot.models_unread}", code=Code.CAPACITY)
        return
    yield from reasons


def _absent(plan: RunPlan, profile: ClusterProfile, _snapshot: Snapshot) -> Iterator[Problem]:
    on_volume = f"{plan.model}/".startswith("/volume/")
    yield Problem(
        loc=("model", "name"),
        message=f"{plan.model} is not "
        + ("on the run's volume" if on_volume else f"in the model cache of {profile.name}"),
        fix="pass the volume that holds it with --volume"
        if on_volume
        else ", or ".join(_ways_to_have(plan.model, profile)),
        code=Code.MODEL,
    )


def _ways_to_have(model: str, profile: ClusterProfile) -> Iterator[str]:
    """Yield what makes a model known to a cluster; one of a path cannot be added by its name."""
    offer = profile.kubernetes
    if not model.startswith("/"):
        if profile.target == "local":
            yield f"paddock models add {model}"
        elif offer is not None and offer.models_claim is not None:
            yield f"paddock models add {model} --cluster {profile.name}"
        elif offer is not None:
            yield f"give stack {profile.name} a model cache (paddock:modelsVolumeSize)"
    folder = "folder or " if profile.target == "local" else ""  # pods have none of this machine's
    yield f"give a {folder}/volume/... path"


def _gated(plan: RunPlan, profile: ClusterProfile, snapshot: Snapshot) -> Iterator[Problem]:
    gated = (*limits.GATED_MODEL_PREFIXES, *profile.gated_models)
    if snapshot.secret_names is None or "HF_TOKEN" in snapshot.secret_names:
        return
    if plan.model.startswith(gated):
        yield Problem(
            loc=("model", "name"),
            message=f"{plan.model} is gated, and its download needs HF_TOKEN",
            fix="pass it with -e HF_TOKEN, or in the env file",
            code=Code.GATED_MODEL,
        )


def volume(plan: RunPlan, profile: ClusterProfile) -> Iterator[Problem]:
    """The volume is one of the cluster's."""
    if plan.volume is None or profile.volumes is None or plan.volume in profile.volumes:
        return
    near = _near(plan.volume, profile.volumes)
    known = ", ".join(sorted(profile.volumes)) or "none"
    yield Problem(
        loc=("volume",),
        message=f"cluster {profile.name} has no volume {plan.volume[:60]}; it has {known}",
        fix=f"did you mean {near}?" if near else "make a volume stack, or leave it out",
        code=Code.VOLUME,
    )


def storage(plan: RunPlan, profile: ClusterProfile) -> Iterator[Problem]:
    """Several nodes share one run directory, with NCCL broadcast too; the volume is the run's."""
    if profile.target != "local" and plan.deployment == "multi_node" and not profile.shared_storage:
        yield Problem(
            loc=("deployment", "type"),
            message="multi_node needs a volume that is ReadWriteMany, and the run's on cluster "
            f"{profile.name} is not",
            fix='use type = "single_node", or a volume (--volume, paddock:volume) that several '
            "nodes can mount",
            code=Code.STORAGE,
        )


def tasksets(plan: RunPlan, profile: ClusterProfile, snapshot: Snapshot) -> Iterator[Problem]:
    """Environments are in the image or requested, where the cluster's list is closed."""
    if not (profile.environments_closed or profile.target == "local"):
        return
    known = ", ".join(sorted(snapshot.tasksets)) or "none"
    for taskset in unknown_tasksets(plan, snapshot):
        near = _near(taskset, snapshot.tasksets)
        yield Problem(
            loc=("orchestrator", "train", "source"),
            message=f"taskset {taskset} is not installed on {profile.name}; it has {known}",
            fix=f"did you mean {near}?"
            if near
            else "install the taskset's package, or use one that is there",
            code=Code.TASKSET,
        )


def first_checkpoint(plan: RunPlan, snapshot: Snapshot) -> Iterator[Problem]:
    """The checkpoint of another run that the run starts with is there, and leaves steps to do."""
    if plan.resume_from is None or snapshot.first_steps is None:
        return
    wanted = parse_resume_from(plan.resume_from)
    first = {"run": wanted.run_id, "step": wanted.step, "max_steps": plan.max_steps}
    try:
        choose(list(snapshot.first_steps), first)
    except MissingError as error:
        yield Problem(loc=("resumeFrom",), message=str(error), code=Code.RESUME_FROM)


def unknown_tasksets(plan: RunPlan, snapshot: Snapshot) -> list[str]:
    """Return the environments of the plan that are neither installed nor requested.

    Pods install packages, so owner and version of an id do not matter there; the embedded engine
    only has what it carries.
    """
    if plan.target == "local":
        carried = {_spelled(name) for name in snapshot.tasksets}
        return [name for name in plan.environments if _spelled(name) not in carried]
    there = {_package(name) for name in (*snapshot.tasksets, *snapshot.requested_environments)}
    return [name for name in plan.environments if _package(name) not in there]


def _spelled(name: str) -> str:
    return name.replace("_", "-").lower()


def _package(spec: str) -> str:
    """Return the package that an id or a requirement spec names, in one spelling."""
    last = spec.split(" @ ")[0].split("#")[0].rstrip("/").split("/")[-1]
    return _spelled(re.split(r"[@\[=<>!~; ]", last.removesuffix(".git"))[0].removesuffix(".git"))


def endpoints(plan: RunPlan, profile: ClusterProfile) -> Iterator[Problem]:
    """A server elsewhere is not called on the pod's own loopback, where nobody listens."""
    if profile.target == "local":
        return
    for endpoint in plan.endpoints:
        if endpoint.is_loopback:
            yield Problem(
                loc=endpoint.loc,
                message=f"{endpoint.url} is the pod's own address, where nobody listens",
                fix="give the server's address as the cluster sees it",
                code=Code.ENDPOINT,
            )


def _near(name: str, known: frozenset[str] | tuple[str, ...]) -> str:
    found = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return found[0] if found else ""
