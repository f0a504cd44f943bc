"""A run in pods is found by its settings, or by its record on any cluster of the project."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runtime.cluster_runs import ClusterRun
from runtime.control.stacks import Project
from runtime.errors import NotFoundError
from runtime.kubernetes_api import KubernetesApi, UnreachableError
from runtime.kubernetes_record import ClusterRecord
from runtime.locate import cluster_connection, locate_run, run_connection
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    monkeypatch.setattr("runtime.kubernetes_transport._PAUSES_S", (0.01,))
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    with serve_fake_api(tmp_path) as (fake, api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        api.fake = fake  # pyright: ignore[reportAttributeAccessIssue]  # for one test's faults
        yield api


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(path=tmp_path, environment={})
    write(made, "lab", kind="cluster", target="kubernetes", context="fake", namespace="lab")
    write(made, "run-one", kind="run", cluster="lab", config="rl.toml")
    write(made, "local", kind="cluster")
    write(made, "run-here", kind="run", cluster="local", config="rl.toml")
    return made


def write(project: Project, stack: str, **settings: str) -> None:
    path = project.settings_file(stack)
    path.parent.mkdir(exist_ok=True)
    config = {f"paddock:{key}": value for key, value in settings.items()}
    path.write_text(yaml.safe_dump({"config": config}))


def begin(api: KubernetesApi, run_id: str, attempt: int = 1) -> None:
    ClusterRecord(api, run_id).begin_attempt(config_digest="d", attempt=attempt)


def test_a_run_is_where_its_settings_place_it(api: KubernetesApi, project: Project):
    begin(api, "run-one", attempt=3)

    run = locate_run(project, "run-one")

    assert isinstance(run, ClusterRun)
    assert (run.connection.context, run.connection.namespace) == ("fake", "lab")
    assert run.attempt == 3


def test_a_run_without_settings_is_where_its_record_is(api: KubernetesApi, project: Project):
    begin(api, "run-two")

    assert isinstance(locate_run(project, "run-two"), ClusterRun)


def test_a_run_that_is_nowhere_is_not_found(api: KubernetesApi, project: Project):
    write(project, "far", kind="cluster", target="kubernetes", context="no-such-context")

    with pytest.raises(NotFoundError, match="no run run-two") as caught:
        locate_run(project, "run-two")

    assert "not asked: no-such-context" in str(caught.value)


def test_a_cluster_that_does_not_answer_is_an_error_of_its_own(
    api: KubernetesApi, project: Project
):
    fake: FakeApi = api.fake  # pyright: ignore[reportAttributeAccessIssue]  # set by the fixture
    fake.fail("GET", "configmaps", 503, times=50)

    with pytest.raises(UnreachableError):
        locate_run(project, "run-one")


def test_settings_tell_the_cluster_offline(project: Project):
    found = run_connection(project, "run-one")

    assert found is not None
    assert found.context == "fake"
    assert run_connection(project, "run-here") is None
    assert run_connection(project, "unknown") is None
    assert cluster_connection(project, "lab").namespace == "lab"
    with pytest.raises(NotFoundError, match="local is no cluster stack of target kubernetes"):
        cluster_connection(project, "local")


def test_a_cluster_stack_without_a_namespace_has_the_default(project: Project):
    write(project, "other", kind="cluster", target="kubernetes", context="fake")

    assert cluster_connection(project, "other").namespace == "paddock"
