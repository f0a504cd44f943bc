"""Opens the API for a dynamic provider, from its resource's inputs `context` and `namespace`.

Called inside the methods of providers only: it loads the HTTP client.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.kubernetes_api import KubernetesApi


@contextmanager
def open_api(props: Mapping[str, Any]) -> "Iterator[KubernetesApi]":  # Any: property values
    """Yield the API of a resource's cluster, and close it."""
    from runtime.cluster import KubernetesConnection
    from runtime.kubernetes_api import KubernetesApi

    connection = KubernetesConnection(context=props["context"], namespace=props["namespace"])
    api = KubernetesApi.connect(connection)
    try:
        yield api
    finally:
        api.close()
