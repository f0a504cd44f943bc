"""An API for watches that does as a test says: it lists, tells of changes, forgets, goes away."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, cast

from runtime.kubernetes_api import KubernetesApi, KubernetesError, UnreachableError
from runtime.kubernetes_kinds import Kind

Json = dict[str, Any]


class ScriptedApi:
    """Objects by kind and name; `tell` changes one as a watch sees it."""

    namespace = "lab"

    def __init__(self) -> None:
        """Serve nothing yet."""
        self.objects: dict[str, dict[str, Json]] = defaultdict(dict)
        self.refused: dict[str, KubernetesError] = {}
        self.num_asked: dict[str, int] = defaultdict(int)
        self.num_lists: dict[str, int] = defaultdict(int)
        self.is_away = threading.Event()
        self.away: set[str] = set()
        self.has_forgotten = threading.Event()
        self._log: dict[str, list[tuple[str, Json]]] = defaultdict(list)
        self._changed = threading.Condition()

    def put(self, kind: str, *objects: Json) -> None:
        """Have objects that nobody is told of."""
        with self._changed:
            self.objects[kind] |= {one["metadata"]["name"]: one for one in objects}

    def tell(self, kind: str, change: str, one: Json) -> None:
        """Change an object and tell whoever watches."""
        with self._changed:
            if change == "DELETED":
                self.objects[kind].pop(one["metadata"]["name"], None)
            else:
                self.objects[kind][one["metadata"]["name"]] = one
            self._log[kind].append((change, one))
            self._changed.notify_all()

    def list_with_version(self, kind: Kind, **_: object) -> tuple[list[Json], str]:
        """Return what is there and how many changes were told before."""
        self._answer(kind)
        with self._changed:
            self.num_lists[kind.name] += 1
            return list(self.objects[kind.name].values()), str(len(self._log[kind.name]))

    def watch(
        self, kind: Kind, *, resource_version: str, timeout_s: float, **_: object
    ) -> Iterator[tuple[str, Json]]:
        """Yield what is told from there on, until the API goes away or forgets."""
        at, deadline = int(resource_version), time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self._answer(kind)
            if self.has_forgotten.is_set():
                raise KubernetesError("too old resource version", status=410, reason="Expired")
            with self._changed:
                if len(self._log[kind.name]) == at:
                    self._changed.wait(0.02)
                told = self._log[kind.name][at:]
            for change, one in told:
                at += 1
                meta = {**one["metadata"], "resourceVersion": str(at)}
                yield change, {**one, "metadata": meta}

    def get(self, kind: str, name: str, **_: Mapping[str, str]) -> Json | None:
        """Return an object."""
        return self.objects[kind].get(name)

    def serves(self, _version: str, kind: str) -> bool:
        """Tell whether there is such a kind."""
        return kind in self.objects

    def close(self) -> None:
        """Close nothing."""

    def as_api(self) -> KubernetesApi:
        """Return this in the place of the real one."""
        return cast("KubernetesApi", self)  # a stand-in: it has the methods that a watch calls

    def _answer(self, kind: Kind) -> None:
        self.num_asked[kind.name] += 1
        if self.is_away.is_set() or kind.name in self.away:
            raise UnreachableError("the Kubernetes API does not answer")
        if kind.name in self.refused:
            raise self.refused[kind.name]
