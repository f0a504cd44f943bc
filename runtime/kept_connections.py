"""The APIs that a short-lived process keeps open: one for each context and namespace.

For the dynamic providers: the check and create of one `up` come one after the other in one process,
and a kubeconfig's credential plugin takes a second each time it is asked. A process that goes on
for hours closes its own (`KubernetesApi.connect`).
"""

import os
from functools import cache

from runtime.cluster import KubernetesConnection
from runtime.kubernetes_api import KubernetesApi


def kept_api(connection: KubernetesConnection) -> KubernetesApi:
    """Return the API of a context and namespace, never to be closed."""
    return _kept(connection.context, connection.namespace, os.environ.get("KUBECONFIG"))


@cache
def _kept(context: str, namespace: str, _kubeconfig: str | None) -> KubernetesApi:
    return KubernetesApi.connect(KubernetesConnection(context=context, namespace=namespace))
