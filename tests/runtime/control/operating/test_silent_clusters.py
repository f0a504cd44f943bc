"""Dispatch and resume while a cluster's API is away: fast, with the true reason, or elsewhere."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from runtime.cluster import ClusterProfile
from runtime.control import model_lists
from runtime.control.model_lists import ModelLists
from runtime.control.next_attempt import NextAttempts
from runtime.control.requests import ResumeRun
from runtime.control.stack_facts import StackFacts
from runtime.control.store.store import Store
from runtime.control.values import User
from runtime.errors import Problem, RefusedError
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_models import enter_model
from tests.runtime.control.operating.dispatching import MODEL, Dispatching, config, request
from tests.runtime.kubernetes.fake_api import FakeApi, serve_fake_api
from tests.runtime.kubernetes.test_models import profile

LIST = "/configmaps/paddock-models"
ADDED = "acme/added"


@dataclass(kw_only=True)
class Lab:
    """A server with the cluster `lab`, whose API does as a test says."""

    dispatching: Dispatching
    fake: FakeApi
    api: KubernetesApi
    user: User
    answers: threading.Event = field(default_factory=threading.Event)

    def hang(self) -> None:
        """Let the API take requests and answer none."""

        def wait(method: str, path: str) -> None:
            self.answers.wait(60)

        self.fake.on_change = wait

    def add_model(self) -> None:
        """Enter a model into the list, as `paddock models add` does."""
        enter_model(self.api, ADDED, revision=None, commit="1")

    def refusal(self, model: str = ADDED) -> tuple[Problem, ...]:
        """Return why a dispatch is refused."""
        with pytest.raises(RefusedError) as raised:
            self.dispatch(model)
        return raised.value.problems

    def dispatch(self, model: str = ADDED) -> str | None:
        """Dispatch a run of a model; return the cluster that it is pinned to."""
        wanted = request(config(model=model))
        return self.dispatching.dispatcher.create(self.user, wanted, None).cluster

    @property
    def models(self) -> ModelLists:
        """Return the lists of the server."""
        return self.dispatching.clusters.models

    @property
    def profile(self) -> ClusterProfile:
        """Return the profile of the cluster."""
        return self.dispatching.clusters.found["lab"]


@pytest.fixture
def lab(sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """Yield a server that serves `lab` only, for a user who can pay."""
    monkeypatch.setattr("runtime.kubernetes_transport._PAUSES_S", (0.01, 0.01, 0.01))
    monkeypatch.setattr(model_lists, "WAIT_S", 60.0)  # this machine may be slow
    monkeypatch.setattr(model_lists, "SILENT_WAIT_S", 60.0)
    dispatching = Dispatching(store=sqlite_store, folder=tmp_path)
    user = dispatching.user()
    dispatching.credit(user, 10**9)
    dispatching.clusters.found["lab"] = profile(context="fake", namespace="lab")
    with serve_fake_api(tmp_path) as (fake, api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        made = Lab(dispatching=dispatching, fake=fake, api=api, user=user)
        yield made
        made.answers.set()


def test_a_model_is_found_as_soon_as_it_is_added(lab: Lab) -> None:
    [absent] = lab.refusal()

    lab.add_model()
    lab.dispatch()

    assert (absent.code, absent.path) == ("model", "model.name")


def test_a_cluster_that_hangs_is_the_reason_and_is_not_waited_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_lists, "WAIT_S", 0.2)
    lab.hang()

    [problem] = lab.refusal()  # while the API still holds the request

    assert not lab.answers.is_set()
    assert problem.code == "capacity"  # 409: another try may do
    assert str(problem).startswith(f"nobody can tell whether cluster lab has {ADDED}: it does not")


def test_a_cluster_that_is_back_takes_runs_at_once(lab: Lab) -> None:
    lab.add_model()
    lab.fake.fail("GET", LIST, 503, times=4)
    [problem] = lab.refusal()

    lab.dispatch()

    assert problem.code == "capacity"


def test_a_model_of_the_last_list_is_there_though_the_cluster_is_silent(lab: Lab) -> None:
    lab.add_model()
    lab.dispatch()
    lab.hang()

    lab.dispatch()

    assert not lab.answers.is_set()


def test_a_silent_cluster_does_not_keep_a_run_from_another(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_lists, "WAIT_S", 0.2)
    lab.dispatching.add_cluster("local")
    lab.hang()

    assert lab.dispatch(MODEL) == "local"


def test_a_silent_cluster_is_the_reason_where_another_has_not_the_model(lab: Lab) -> None:
    lab.dispatching.add_cluster("a-small-one")
    lab.fake.fail("GET", LIST, 503, times=4)

    assert [problem.code for problem in lab.refusal()] == ["capacity"]


def test_a_resume_on_a_silent_cluster_is_refused_with_that(lab: Lab) -> None:
    lab.add_model()
    wanted = request(config(model=ADDED))
    run = lab.dispatching.dispatcher.create(lab.user, wanted, None)
    clusters = replace(lab.dispatching.clusters, models=ModelLists())  # of a server just started
    judge = NextAttempts(store=lab.dispatching.store, clusters=clusters)
    stack = StackFacts(settings={"kind": "run", "cluster": "lab"})
    lab.fake.fail("GET", LIST, 503, times=4)

    with pytest.raises(RefusedError) as raised:
        judge.plan(replace(run, cluster="lab"), ResumeRun(), stack)
    plan = judge.plan(replace(run, cluster="lab"), ResumeRun(), stack)

    assert [problem.code for problem in raised.value.problems] == ["capacity"]
    assert plan.attempt == run.attempt + 1
