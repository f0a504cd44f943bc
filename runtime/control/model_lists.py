"""ModelLists: what clusters of pods have in their model caches, as it was last read.

A list is read by a thread of its own, so a cluster that does not answer holds up no other cluster,
and a request only shortly. `runtime.control.known_clusters` has them read; dispatch, resume and the
catalog look into them.
"""

import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from runtime.cluster import ClusterProfile, KubernetesConnection
from runtime.control.places import Clusters
from runtime.errors import PaddockError
from runtime.observe.snapshot import needs_model_list, with_model_list
from runtime.plan import RunPlan
from runtime.situation import Snapshot

if TYPE_CHECKING:
    from runtime.kubernetes_api import KubernetesApi

AGAIN_S = 30.0
"""How old a list gets before it is read again."""

WAIT_S = 3.0
"""How long a request waits for a cluster that answered at the last look."""

SILENT_WAIT_S = 0.5
"""How long it waits for one that did not: enough for one that is back."""

SILENT = "it does not answer now; try again later"
UNREADABLE = "its list of models cannot be read; ask its operators"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelList:
    """The models of a cluster's cache; `unread` says why they are not those of now."""

    names: frozenset[str] = frozenset()
    unread: str = ""
    read_at: float = field(default_factory=time.monotonic)


class ListedClusters(Clusters, Protocol):
    """Clusters whose lists of models are kept."""

    @property
    def models(self) -> "ModelLists":
        """Return the lists."""
        ...


class ModelLists:
    """The lists of all clusters; safe to use from several threads."""

    def __init__(self) -> None:
        """Know no list; nothing is asked yet."""
        self._lists: dict[KubernetesConnection, ModelList] = {}
        self._reading: dict[KubernetesConnection, Future[ModelList]] = {}
        self._apis: dict[KubernetesConnection, KubernetesApi] = {}
        self._lock = threading.Lock()

    def names(self, profile: ClusterProfile) -> frozenset[str]:
        """Return the models of a cluster's settings and of its list, as that was last read."""
        if not isinstance(profile.connection, KubernetesConnection):
            return frozenset(profile.models)
        return self._last(profile.connection).names | frozenset(profile.models)

    def refresh(self, profiles: Iterable[ClusterProfile]) -> None:
        """Begin to read the lists that are old; waits for none."""
        for profile in profiles:
            connection, offer = profile.connection, profile.kubernetes
            if not isinstance(connection, KubernetesConnection):
                continue
            has_list = offer is not None and offer.models_claim is not None
            if has_list and time.monotonic() > self._last(connection).read_at + AGAIN_S:
                self._begin(connection)

    def completed(self, snapshot: Snapshot, plan: RunPlan, profile: ClusterProfile) -> Snapshot:
        """Return the snapshot with the plan's model, where a cluster's own list is what tells it.

        A model that was not there at the last look is looked for again: it may just have been
        added. One that was is there, though the cluster be silent by now.
        """
        connection = profile.connection
        if not isinstance(connection, KubernetesConnection):
            return snapshot
        if not needs_model_list(snapshot, plan, profile):
            return snapshot
        found = self._last(connection)
        if plan.model not in found.names:
            found = self._read_now(connection, SILENT_WAIT_S if found.unread else WAIT_S)
        return with_model_list(snapshot, plan, found.names, unread=found.unread)

    def _last(self, connection: KubernetesConnection) -> ModelList:
        return self._lists.get(connection, ModelList(read_at=float("-inf")))

    def _read_now(self, connection: KubernetesConnection, within_s: float) -> ModelList:
        try:
            return self._begin(connection).result(within_s)
        except TimeoutError:
            with self._lock:
                if connection in self._reading:
                    self._keep(connection, SILENT, f"no answer within {within_s} s")
                return self._last(connection)

    def _begin(self, connection: KubernetesConnection) -> Future[ModelList]:
        with self._lock:
            if connection not in self._reading:
                # it waits for the lock; one that cannot be started leaves nothing to wait for
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()
                self._reading[connection] = Future()
            return self._reading[connection]

    def _read(self, connection: KubernetesConnection) -> None:
        from runtime.kubernetes_api import UnreachableError
        from runtime.kubernetes_models import cached_models

        names, unread, why = None, UNREADABLE, ""
        try:
            names = frozenset(cached_models(self._api(connection)))
        except (PaddockError, ValueError) as error:  # a list that a person has changed is no JSON
            unread = SILENT if isinstance(error, UnreachableError) else UNREADABLE
            why = str(error)
            self._close(connection)
        finally:
            with self._lock:
                if names is None:
                    self._keep(connection, unread, why)
                else:
                    self._lists[connection] = ModelList(names=names)
                reading, found = self._reading.pop(connection), self._lists[connection]
            reading.set_result(found)

    def _keep(self, connection: KubernetesConnection, unread: str, why: str) -> None:
        """Let the last list stand, with why it is not that of now."""
        last = self._last(connection)
        self._lists[connection] = ModelList(names=last.names, unread=unread)
        if not last.unread:
            _LOG.warning("the models of context %s cannot be listed: %s", connection.context, why)

    def _api(self, connection: KubernetesConnection) -> "KubernetesApi":
        from runtime.kubernetes_api import KubernetesApi

        if connection not in self._apis:
            self._apis[connection] = KubernetesApi.connect(connection)
        return self._apis[connection]

    def _close(self, connection: KubernetesConnection) -> None:
        api = self._apis.pop(connection, None)
        if api is not None:
            api.close()
