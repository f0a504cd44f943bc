"""FilesToken: the Secret with the file server's token; made once, kept as it is.

The token is drawn where it is created and goes into the cluster alone: it is no input and no output
of a resource. This module is never moved or renamed; old state refers to it by name.
"""

from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource

from infra.k8s.claim import is_own
from infra.k8s.connected import open_api
from infra.provider_errors import Provider

Props = dict[str, Any]  # Any: property values as the engine hands them over


class FilesTokenProvider(Provider):
    """The provider of FilesToken."""

    def create(self, props: Props) -> CreateResult:
        """Make the Secret with a fresh token; one that is there keeps its token.

        One with our labels is what an `up` made that was cut off: no adopted one.
        """
        import secrets

        with open_api(props) as api:
            found = api.get("Secret", props["secret"])
            adopted = found is not None and not is_own(found, props)
            if found is None:
                api.create("Secret", _manifest(props, secrets.token_urlsafe(32)))
        return CreateResult(props["secret"], outs={**props, "adopted": adopted})

    def diff(self, _id: str, _olds: Props, _news: Props) -> DiffResult:
        """Another name is another Secret."""
        moved = [key for key in ("context", "namespace", "secret") if _olds[key] != _news[key]]
        return DiffResult(changes=bool(moved), replaces=moved, delete_before_replace=True)

    def read(self, id_: str, props: Props) -> ReadResult:
        """Report a Secret that somebody deleted as gone."""
        with open_api(props) as api:
            found = api.get("Secret", props["secret"])
        return ReadResult(id_ if found is not None else "", outs=dict(props))

    def delete(self, _id: str, _props: Props) -> None:
        """Delete the Secret unless it was adopted."""
        if not _props.get("adopted"):
            with open_api(_props) as api:
                api.delete("Secret", _props["secret"])


class FilesToken(Resource, module="paddock/k8s", name="FilesToken"):
    """The Secret that opens the file server."""

    def __init__(self, name: str, inputs: Props, opts: pulumi.ResourceOptions) -> None:
        """Declare the Secret; `adopted` tells whether it was there before."""
        super().__init__(FilesTokenProvider(), name, {**inputs, "adopted": None}, opts)


def _manifest(props: Props, token: str) -> dict[str, Any]:  # Any: a Kubernetes object
    metadata = {"name": props["secret"], "labels": dict(props["labels"])}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "stringData": {props["key"]: token},
    }
