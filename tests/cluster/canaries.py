"""Looks for the value of a secret wherever a server of real pods could have put it."""

import json

from tests.cluster.planes import Plane
from tests.secret_search import files_with_value, has_value

FILLED = ("configmaps", "jobs", "pods", "services", "events")
"""What a value must not be in; it is in one Secret while the run lives."""


def value_is_nowhere(plane: Plane, value: str) -> None:
    """Look for a value in database, state, captures, run directories, objects and logs."""
    lab = plane.lab
    assert files_with_value(lab.site.folder, value) == []
    assert files_with_value(lab.volume, value) == []
    assert not has_value("".join(plane.served.lines).encode(), value)
    for kind in FILLED:
        found = lab.testbed.get(kind, "--namespace", lab.namespace)
        assert not in_object(found, value), kind


def in_object(document: object, value: str) -> bool:
    """Tell whether an object has a value."""
    return has_value(json.dumps(document).encode(), value)
