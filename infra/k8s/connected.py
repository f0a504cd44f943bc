"""Opens the API for a dynamic provider, from its resource's inputs `context` and `namespace`.

Called inside the methods of providers only: it loads the HTTP client.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.kubernetes_api import KubernetesApi


def open_api(props: Mapping[str, Any]) -> "AbstractContextManager[KubernetesApi]":  # Any: values
    """Return the API of a resource's cluster; the provider's process keeps it open."""
    from runtime.cluster import KubernetesConnection
    from runtime.kept_connections import kept_api

    connection = KubernetesConnection(context=props["context"], namespace=props["namespace"])
    return nullcontext(kept_api(connection))
