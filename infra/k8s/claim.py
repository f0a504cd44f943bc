"""Claims: storage that outlives the runs, made where it is missing, adopted where it is there.

KeptClaim is a cluster stack's (default run volume, model cache): it is never deleted with its
stack. Volume is a volume stack's own and protected; once `pulumi state unprotect` allows it, the
claim goes unless it was adopted. Neither waits until a claim is bound, which for many classes
happens with the first pod, and neither reads StorageClasses. This module is never moved or renamed;
old state refers to it by name.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, UpdateResult

from infra.k8s.connected import open_api
from infra.provider_errors import Provider

if TYPE_CHECKING:
    from runtime.kubernetes_api import KubernetesApi

Props = dict[str, Any]  # Any: property values as the engine hands them over

KIND = "PersistentVolumeClaim"
_GONE_WITHIN_S = 60.0
_REFUSALS = (403, 422)


class KeptClaimProvider(Provider):
    """The provider of KeptClaim."""

    def create(self, props: Props) -> CreateResult:
        """Make the claim, or adopt the one that is there."""
        with open_api(props) as api:
            adopted = ensure_claim(api, props)
        return CreateResult(props["claim"], outs={**props, "adopted": adopted})

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another name is another claim; a claim that paddock made can grow."""
        moved = [key for key in ("context", "namespace", "claim") if _olds[key] != _news[key]]
        grown = _olds["size"] != _news["size"] and not _olds.get("adopted")
        return DiffResult(changes=bool(moved) or grown, replaces=moved)

    def read(self, id_: str, props: Props) -> ReadResult:
        """Report a claim that somebody deleted as gone."""
        with open_api(props) as api:
            found = api.get(KIND, props["claim"])
        return ReadResult(id_ if found is not None else "", outs=dict(props))

    def update(self, _id: str, _olds: Props, _news: Props) -> UpdateResult:
        """Ask for the new size; the API refuses where the class cannot grow, or to shrink.

        `runtime.control.volume_steps` reads the size that it stays at from these words.
        """
        from runtime.errors import StackError
        from runtime.kubernetes_errors import KubernetesError

        claim, size = _news["claim"], {"storage": _news["size"]}
        with open_api(_news) as api:
            try:
                api.patch(KIND, claim, {"spec": {"resources": {"requests": size}}})
            except KubernetesError as error:
                if error.status not in _REFUSALS:  # it is gone, or nobody knows
                    raise
                raise StackError(f"claim {claim} stays at {_olds['size']}: {error}") from None
        return UpdateResult(outs={**_news, "adopted": _olds.get("adopted")})

    def delete(self, _id: str, _props: Props) -> None:
        """Leave the claim, with all runs on it."""


class VolumeProvider(KeptClaimProvider):
    """The provider of Volume."""

    def delete(self, _id: str, _props: Props) -> None:
        """Delete a claim that paddock made, and say what holds it when it stays."""
        if _props.get("adopted"):
            return
        with open_api(_props) as api:
            delete_claim(api, _props["claim"], within_s=_GONE_WITHIN_S)


class KeptClaim(Resource, module="paddock/k8s", name="KeptClaim"):
    """A claim of a cluster stack, which stays when the stack goes."""

    def __init__(self, name: str, inputs: Props, opts: pulumi.ResourceOptions) -> None:
        """Declare the claim; `adopted` tells whether it was there before."""
        super().__init__(KeptClaimProvider(), name, {**inputs, "adopted": None}, opts)


class Volume(Resource, module="paddock/k8s", name="Volume"):
    """The claim of a volume stack."""

    def __init__(self, name: str, inputs: Props, opts: pulumi.ResourceOptions) -> None:
        """Declare the claim; `adopted` tells whether it was there before."""
        super().__init__(VolumeProvider(), name, {**inputs, "adopted": None}, opts)


def ensure_claim(api: "KubernetesApi", props: Mapping[str, Any]) -> bool:
    """Make a claim unless it is there; tell whether it was another's. `mustExist` makes none.

    One with our labels is what an `up` made that was cut off before the engine knew of it.
    """
    from runtime.errors import NotFoundError, StackError

    name, where = props["claim"], f"namespace {props['namespace']}"
    found = api.get(KIND, name)
    if found is not None and "deletionTimestamp" in found["metadata"]:
        held = ", ".join(found["metadata"].get("finalizers") or ()) or "nothing"
        raise StackError(f"claim {name} in {where} is being deleted, held by {held}: wait for it")
    if found is not None:
        return bool(props["mustExist"]) or not is_own(found, props)
    if props["mustExist"]:
        raise NotFoundError(f"{where} has no claim {name}: make it, or unset the setting")
    api.create(KIND, claim_manifest(props))
    return False


def is_own(found: Mapping[str, Any], props: Mapping[str, Any]) -> bool:  # Any: as the API has it
    """Tell whether an object has all labels that its stack gives to what it makes."""
    labels = found["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in props["labels"].items())


def claim_manifest(props: Mapping[str, Any]) -> dict[str, Any]:  # Any: a Kubernetes object
    """Return the claim: shared by all nodes; no class means the cluster's default."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": props["size"]}},
    }
    if props.get("storageClass"):  # the engine drops an input that is None
        spec["storageClassName"] = props["storageClass"]
    metadata = {"name": props["claim"], "labels": dict(props["labels"])}
    return {"apiVersion": "v1", "kind": KIND, "metadata": metadata, "spec": spec}


def delete_claim(api: "KubernetesApi", name: str, *, within_s: float) -> None:
    """Delete a claim and wait until it is gone; finalizers are named, never stripped."""
    from runtime.errors import StackError

    if not api.delete(KIND, name):
        return
    deadline = time.monotonic() + within_s
    while (found := api.get(KIND, name)) is not None:
        if time.monotonic() > deadline:
            held = ", ".join(found["metadata"].get("finalizers") or ()) or "nothing that it names"
            raise StackError(
                f"claim {name} is still there after {within_s:g} s, held by {held}: end the pods "
                "that mount it, then destroy again"
            )
        time.sleep(0.5)
