"""A run's model on a cluster of pods: in its list, absent from it, or nobody can tell."""

import pytest

from runtime.admission import admission_problems
from runtime.errors import Problem
from runtime.kubernetes_api import KubernetesApi
from runtime.kubernetes_models import enter_model
from runtime.observe.snapshot import take_snapshot
from tests.runtime.admitting import made
from tests.runtime.kubernetes.fake_api import FakeApi
from tests.runtime.kubernetes.test_models import profile

LIST = "/configmaps/paddock-models"
ADD = "paddock models add {} --cluster lab, or give a /volume/... path"
NO_CACHE = "give stack lab a model cache (paddock:modelsVolumeSize), or give a /volume/... path"


def problems(model: str, *, cache: str | None = "1Ti", download: bool = False) -> list[Problem]:
    """Return what admission says of a run's model by hand."""
    reached = {"context": "fake", "namespace": "lab"}
    settings = {"models": ("acme/set",), "model_download": download, "models_volume_size": cache}
    lab = profile(**reached, **settings)
    plan = made(lab, model=model)
    snapshot = take_snapshot(plan, lab, secret_names=frozenset())
    found = admission_problems(plan, profile=lab, snapshot=snapshot)
    return [one for one in found if one.loc[:1] == ("model",) or one.code == "capacity"]


@pytest.mark.parametrize("model", ["acme/set", "acme/added"])
def test_a_model_of_the_settings_or_of_the_list_is_there(api: KubernetesApi, model: str) -> None:
    enter_model(api, "acme/added", revision=None, commit="1")

    assert problems(model) == []


@pytest.mark.parametrize(
    ("model", "cache", "fix"),
    [
        ("acme/other", "1Ti", ADD.format("acme/other")),
        ("acme/other", None, NO_CACHE),
        ("/models/other", "1Ti", "give a /volume/... path"),
        ("/volume/other", "1Ti", "pass the volume that holds it with --volume"),
    ],
)
def test_a_model_that_is_not_there_is_refused_with_what_adds_it(
    api: KubernetesApi, model: str, cache: str | None, fix: str
) -> None:
    [problem] = problems(model, cache=cache)

    assert (problem.path, problem.code, problem.fix) == ("model.name", "model", fix)


def test_a_cluster_that_does_not_answer_is_not_said_to_lack_the_model(fake: FakeApi) -> None:
    fake.fail("GET", LIST, 503, times=4)

    [problem] = problems("acme/other")

    assert problem.code == "capacity"
    assert "acme/other" in problem.message
    assert "get configmaps paddock-models" in problem.message
    assert problem.loc == ()


def test_a_list_that_may_not_be_read_is_said_with_the_api_s_words(fake: FakeApi) -> None:
    fake.fail("GET", LIST, 403, reason="Forbidden", message="no, you may not")

    [problem] = problems("acme/other")

    assert "no, you may not" in problem.message


def test_a_model_that_may_be_downloaded_needs_no_list(fake: FakeApi) -> None:
    fake.fail("GET", LIST, 503, times=4)

    assert problems("acme/other", download=True) == []


def test_a_gated_model_that_may_be_cached_needs_no_token(fake: FakeApi) -> None:
    fake.fail("GET", LIST, 503, times=4)

    [problem] = problems("meta-llama/other", download=True)

    assert problem.code == "capacity"
