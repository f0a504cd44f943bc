"""What a run stack says about the volume that it is placed on."""

from runtime.cluster import FilesOffer
from runtime.launch.notices import volume_notices
from tests.infra.k8s.placing import profile

FILES = FilesOffer(selector={"a": "b"}, port=1, secret="files", claims=("shown",))


def test_a_volume_that_no_file_server_shows_is_said() -> None:
    cluster = profile(offer={"files": FILES})

    (notice,) = volume_notices(cluster, "other")

    assert "shows claim other" in notice
    assert "update both stacks" in notice
    assert volume_notices(cluster, "shown") == volume_notices(cluster, None) == []
    assert volume_notices(cluster, "runs") == []  # the default run volume
    assert volume_notices(profile(), "shown") != []


def test_nothing_is_said_where_every_volume_has_a_file_server() -> None:
    cluster = profile(offer={"files": FILES.model_copy(update={"image": "python:3.12-slim"})})

    assert volume_notices(cluster, "other") == []
