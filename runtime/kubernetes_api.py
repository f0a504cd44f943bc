"""KubernetesApi: plain manifests in and out of one cluster, with retries and errors of ours.

The only way that paddock's own code talks to Kubernetes, Pulumi aside; synchronous, safe to use
from several threads. No model classes: a manifest is a dict as in the API's documents.
"""

import builtins
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from runtime.cluster import KubernetesConnection
from runtime.kubernetes_call import Call, object_call, plain_call
from runtime.kubernetes_errors import (
    ForbiddenError,
    KubernetesError,
    UnreachableError,
    is_status,
    watch_error,
)
from runtime.kubernetes_kinds import (
    KINDS,
    Kind,
    Labels,
    find_kind,
    kind_of,
    label_selector,
    selector_params,
)

if TYPE_CHECKING:
    import httpx

    from runtime.kubernetes_transport import Transport

__all__ = [
    "KINDS",
    "ForbiddenError",
    "Kind",
    "KubernetesApi",
    "KubernetesError",
    "Manifest",
    "UnreachableError",
    "kind_of",
    "label_selector",
]

Manifest = dict[str, Any]  # Any: a Kubernetes object

_PAGE = 500
_WATCH_SLACK_S = 15.0
"""Silence of a watch past its own end that counts as a dead connection."""

_MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
_APPLY_PATCH = {"Content-Type": "application/apply-patch+yaml"}


class KubernetesApi:
    """One cluster's API; `namespace` is used where a call names none."""

    def __init__(self, transport: "Transport", *, namespace: str) -> None:
        """Use this transport."""
        self._transport = transport
        self.namespace = namespace

    @classmethod
    def connect(cls, connection: KubernetesConnection) -> "KubernetesApi":
        """Return the API behind a context of the caller's kubeconfig; nothing is asked yet."""
        from runtime.kubernetes_transport import open_transport

        return cls(open_transport(connection), namespace=connection.namespace)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def get(self, kind: str | Kind, name: str, *, namespace: str | None = None) -> Manifest | None:
        """Return an object, None where there is none of that name."""
        try:
            return self._send(self._call("get", kind, name, namespace=namespace))
        except KubernetesError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self,
        kind: str | Kind,
        *,
        labels: Labels = None,
        fields: str | None = None,
        namespace: str | None = None,
    ) -> list[Manifest]:
        """Return the objects of a kind; `labels` as a mapping or as a selector's text."""
        items, _ = self.list_with_version(kind, labels=labels, fields=fields, namespace=namespace)
        return items

    def list_with_version(
        self,
        kind: str | Kind,
        *,
        labels: Labels = None,
        fields: str | None = None,
        namespace: str | None = None,
    ) -> tuple[builtins.list[Manifest], str]:
        """Return the objects and the resource version that a watch goes on from."""
        selectors = selector_params(labels, fields)
        params = {"limit": str(_PAGE), **selectors}
        found: list[Manifest] = []
        call = self._call("list", kind, namespace=namespace)
        while True:
            try:
                page = self._send(replace(call, params=params))
            except KubernetesError as error:
                if not error.is_expired or "continue" not in params:
                    raise
                found, params = [], selectors  # the pages' snapshot is gone: again, in one piece
                continue
            version, name = page["apiVersion"], page["kind"].removesuffix("List")
            items = page["items"] or []
            found += [{"apiVersion": version, "kind": name, **item} for item in items]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return found, str(metadata.get("resourceVersion", ""))
            params = {**params, "continue": metadata["continue"]}

    def create(
        self, kind: str | Kind, manifest: Mapping[str, Any], *, namespace: str | None = None
    ) -> Manifest:
        """Create an object; raises KubernetesError with `already_exists` when it is there."""
        return self._send(self._call("create", kind, namespace=namespace, body=manifest))

    def replace(
        self, kind: str | Kind, manifest: Mapping[str, Any], *, namespace: str | None = None
    ) -> Manifest:
        """Replace an object; with a resourceVersion in it this is a compare-and-set."""
        name = manifest["metadata"]["name"]
        return self._send(self._call("update", kind, name, namespace=namespace, body=manifest))

    def patch(
        self,
        kind: str | Kind,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        namespace: str | None = None,
    ) -> Manifest:
        """Merge a patch into an object (RFC 7386: null removes a key, a list is replaced)."""
        target = f"{name}/{subresource}" if subresource else name
        call = self._call("patch", kind, target, namespace=namespace, body=patch)
        return self._send(replace(call, headers=_MERGE_PATCH))

    def apply(
        self, manifest: Mapping[str, Any], *, dry_run: bool = False, namespace: str | None = None
    ) -> Manifest:
        """Apply a manifest on the server's side; a field that the API does not know is an error."""
        name = manifest["metadata"]["name"]
        where = namespace or manifest["metadata"].get("namespace")
        call = self._call("patch", kind_of(manifest), name, namespace=where, body=manifest)
        params = {**call.params, "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            params["dryRun"] = "All"
        return self._send(replace(call, params=params, headers=_APPLY_PATCH))

    def delete(
        self,
        kind: str | Kind,
        name: str,
        *,
        propagation: str = "Foreground",
        uid: str | None = None,
        namespace: str | None = None,
    ) -> bool:
        """Ask for the deletion of an object; False when it, or the one of this uid, was gone."""
        options: Manifest = {"propagationPolicy": propagation}
        return self._delete(self._call("delete", kind, name, namespace=namespace), options, uid)

    def force_delete_pod(self, name: str, *, uid: str) -> bool:
        """Take a pod out of the API at once: only for one whose node is dead."""
        return self._delete(self._call("delete", "Pod", name), {"gracePeriodSeconds": 0}, uid)

    def watch(
        self,
        kind: str | Kind,
        *,
        resource_version: str,
        timeout_s: float,
        labels: Labels = None,
        namespace: str | None = None,
    ) -> Iterator[tuple[str, Manifest]]:
        """Yield (type, object) from a resource version on, until the time is over.

        BOOKMARK events bring a newer resource version and nothing else. Raises KubernetesError with
        `is_expired` when the version is too old: list again. Raises UnreachableError when the
        connection breaks: watch again from the last version seen.
        """
        from runtime.kubernetes_transport import lines_of

        params = {
            "watch": "1",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(timeout_s))),
            "allowWatchBookmarks": "true",
            **selector_params(labels),
        }
        call = self._call("watch", kind, namespace=namespace)
        call = replace(call, params=params, silence_s=timeout_s + _WATCH_SLACK_S)
        for line in lines_of(self._transport.stream(call)):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise watch_error(call.asked, event["object"])
            yield event["type"], event["object"]

    def pod_log(
        self,
        name: str,
        *,
        container: str,
        tail: int | None = None,
        follow: bool = False,
        since_seconds: int | None = None,
    ) -> Iterator[bytes]:
        """Yield a container's log in pieces as they come; pieces are not lines."""
        params = {"container": container}
        if tail is not None:
            params["tailLines"] = str(tail)
        if since_seconds is not None:
            params["sinceSeconds"] = str(max(1, since_seconds))
        if follow:
            params["follow"] = "true"
        call = replace(self._call("get", "Pod", f"{name}/log"), params=params)
        yield from self._transport.stream(replace(call, silence_s=None) if follow else call)

    def proxy(
        self,
        pod: str,
        port: int,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> "httpx.Response":
        """Return the answer of a pod's own server, through the API server; not read yet: close it.

        `read()` or `iter_bytes()` gives the body. An error of the way there raises KubernetesError;
        one of the pod's server is its own answer.
        """
        call = self._call("get", "Pod", f"{pod}:{port}/proxy/{quote(path.lstrip('/'))}")
        call = replace(call, params=query or {}, headers=headers or {})
        response = self._transport.open(call)
        if response.status_code >= 400:
            body = response.read()
            if is_status(body):
                raise self._transport.error(call, response)
        return response

    def server_version(self) -> str:
        """Return the server's version: v1.37.2."""
        return str(self._send(plain_call("/version", "version"))["gitVersion"])

    def serves(self, group_version: str, kind: str) -> bool:
        """Tell whether the API serves a kind in a version of its group."""
        path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        try:
            found = self._send(plain_call(path, group_version))
        except KubernetesError as error:
            if error.status == 404:
                return False
            raise
        return any(one["kind"] == kind for one in found.get("resources", []))

    def _delete(self, call: Call, options: Manifest, uid: str | None) -> bool:
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            self._send(replace(call, body=options))
        except KubernetesError as error:
            if error.status == 404 or (uid is not None and error.is_conflict):
                return False
            raise
        return True

    def _send(self, call: "Call") -> Manifest:
        return self._transport.send(call).json()

    def _call(
        self,
        verb: str,
        kind: str | Kind,
        name: str = "",
        *,
        namespace: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Call:
        found = find_kind(kind)
        where = (namespace or self.namespace) if found.is_namespaced else ""
        return object_call(verb, found, name, namespace=where, body=body)
