"""A watch sees what changes, rides out an API that is away, and stops where it may not look."""

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from runtime.kubernetes_api import ForbiddenError, KubernetesError, UnreachableError
from runtime.kubernetes_kinds import Kind
from runtime.observe.kubernetes.watch import RunWatch, open_watch
from runtime.states import RunState
from tests.runtime.observe_kubernetes.manifests import event, job, pod, record
from tests.runtime.observe_kubernetes.scripted_api import ScriptedApi
from tests.waiting import wait_for

BROKEN = UnreachableError("conversion webhook failed", status=500, reason="InternalError")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> ScriptedApi:
    monkeypatch.setattr("runtime.observe.kubernetes.watch._BACK_OFF_S", (0.02, 0.05))
    monkeypatch.setattr("runtime.observe.kubernetes.watch._WATCH_S", 1.0)
    made = ScriptedApi()
    made.put("ConfigMap", record("run-one"))
    made.put("Job", job("run-one"))
    made.put("Pod", pod("run-one"))
    return made


@pytest.fixture
def watch(api: ScriptedApi) -> Iterator[RunWatch]:
    with open_watch(api.as_api()) as made:
        wait_for(lambda: made.is_current)
        made.changes(1.0)
        yield made


def phase(watch: RunWatch) -> str:
    return watch.facts("run-one", 1).pods[0].phase


def gather(watch: RunWatch, run_id: str) -> None:
    wait_for(lambda: run_id in watch.changes(0.1))


def test_a_list_makes_the_watch_current(watch: RunWatch):
    assert watch.open_run_ids() == ["run-one"]
    assert phase(watch) == "Running"
    found = watch.record("run-one")
    assert found is not None
    assert found.state is RunState.RUNNING


def test_a_change_is_reported_once(api: ScriptedApi, watch: RunWatch):
    api.tell("Pod", "MODIFIED", pod("run-one", phase="Failed"))

    gather(watch, "run-one")
    assert phase(watch) == "Failed"
    assert watch.changes(0.05) == set()


def test_changes_of_one_moment_come_together(api: ScriptedApi, watch: RunWatch):
    for number in range(50):
        api.tell("Pod", "ADDED", pod("run-one", f"pod-{number}"))

    reports = [watch.changes(0.2) for _ in range(6)]
    assert 1 <= len([one for one in reports if one]) <= 5


def test_an_api_that_was_away_loses_nothing(api: ScriptedApi, watch: RunWatch):
    api.is_away.set()
    wait_for(lambda: watch.unreachable_since is not None)
    assert not watch.is_current
    assert phase(watch) == "Running"
    api.put("Pod", pod("run-one", phase="Failed"))
    api.put("ConfigMap", record("run-two"))

    api.is_away.clear()

    wait_for(lambda: watch.is_current)
    assert watch.unreachable_since is None
    assert phase(watch) == "Failed"
    seen: set[str] = set()
    wait_for(lambda: seen.update(watch.changes(0.1)) or seen == {"run-one", "run-two"})


def test_a_version_that_is_too_old_is_listed_anew(api: ScriptedApi, watch: RunWatch):
    before = api.num_lists["Pod"]
    api.put("Pod", pod("run-one", phase="Failed"))

    api.has_forgotten.set()

    wait_for(lambda: api.num_lists["Pod"] > before)
    api.has_forgotten.clear()
    gather(watch, "run-one")
    assert phase(watch) == "Failed"


def test_a_quiet_kind_is_not_listed_again(api: ScriptedApi, watch: RunWatch):
    api.tell("Pod", "MODIFIED", pod("run-one", phase="Succeeded"))
    gather(watch, "run-one")

    assert api.num_lists["Pod"] == 1


def test_pods_that_may_not_be_read_end_the_watch(api: ScriptedApi):
    api.refused["Pod"] = ForbiddenError("not allowed to list pods", status=403, reason="Forbidden")

    with open_watch(api.as_api()) as watch, pytest.raises(ForbiddenError, match="list pods"):
        wait_for(lambda: watch.changes(0.1) and False)


@pytest.mark.parametrize("kind", ["Event", "Workload"])
def test_what_is_not_needed_may_be_missing(api: ScriptedApi, kind: str):
    api.put("Workload")
    api.refused[kind] = KubernetesError("gone", status=404, reason="NotFound")
    if kind == "Event":
        api.refused[kind] = ForbiddenError("no", status=403, reason="Forbidden")

    with open_watch(api.as_api()) as watch:
        wait_for(lambda: watch.is_current)

        assert phase(watch) == "Running"


@pytest.mark.parametrize(
    "refusal",
    [
        ForbiddenError("no", status=403, reason="Forbidden"),
        KubernetesError("gone", status=404, reason="NotFound"),
    ],
)
def test_what_is_refused_after_an_outage_is_not_waited_for(
    api: ScriptedApi, refusal: KubernetesError
):
    api.put("Workload")
    with open_watch(api.as_api()) as watch:
        wait_for(lambda: watch.is_current)
        watch.changes(1.0)
        api.away.add("Workload")
        wait_for(lambda: watch.unreachable_since is not None)

        api.refused["Workload"] = refusal
        api.away.clear()

        wait_for(lambda: watch.is_current)
        assert watch.unreachable_since is None
        assert watch.unread == ""
        gather(watch, "run-one")  # nobody judged it meanwhile


@pytest.mark.parametrize("kind", ["JobSet", "Workload"])
def test_a_queue_that_fails_holds_up_nothing_where_no_run_is_queued_by_it(
    api: ScriptedApi, kind: str
):
    api.put(kind)
    api.refused[kind] = BROKEN

    with open_watch(api.as_api(), has_queue=False) as watch:
        wait_for(lambda: watch.is_current)
        wait_for(lambda: api.num_asked[kind] > 2)

        assert watch.is_current
        assert watch.unreachable_since is None
        del api.refused[kind]
        wait_for(lambda: api.num_lists[kind] == 1)


@pytest.mark.parametrize("kind", ["Event", "JobSet", "Workload"])
@pytest.mark.parametrize("status", [429, 500])
def test_a_kind_that_fails_is_named(api: ScriptedApi, kind: str, status: int):
    api.put(kind)
    error = UnreachableError if status == 500 else KubernetesError
    api.refused[kind] = error(f"list {kind}: broken", status=status)

    with open_watch(api.as_api()) as watch:
        wait_for(lambda: watch.unread)

        assert watch.unread == f"list {kind}: broken"
        assert watch.unreachable_since is not None
        assert not watch.is_current
        api.is_away.set()
        wait_for(lambda: not watch.unread)  # now it is the API itself
        api.refused.clear()
        api.is_away.clear()
        wait_for(lambda: watch.is_current)
        assert watch.unread == ""


def test_events_reach_the_run(api: ScriptedApi, watch: RunWatch):
    name = watch.facts("run-one", 1).pods[0].name
    api.tell("Event", "ADDED", event(name, "FailedMount", "no volume"))

    gather(watch, "run-one")
    assert watch.facts("run-one", 1).pods[0].trouble == "no volume"


def test_threads_end_with_the_watch(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("runtime.observe.kubernetes.watch._WATCH_S", 0.1)
    with open_watch(api.as_api()) as watch:
        wait_for(lambda: watch.is_current)
        names = {one.name for one in threading.enumerate()}

    assert "watch-pods" in names
    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "watch-pods"])


def test_a_connection_that_is_closed_with_the_watch_is_no_fault_of_it(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    is_closed = threading.Event()

    def watch(*_: object, **__: object) -> Iterator[tuple[str, dict[str, object]]]:
        is_closed.wait()
        raise RuntimeError("Cannot send a request, as the client has been closed.")
        yield

    monkeypatch.setattr(api, "watch", watch)
    with open_watch(api.as_api()) as made:
        wait_for(lambda: made.is_current)

    is_closed.set()

    wait_for(lambda: not [one for one in threading.enumerate() if one.name == "watch-pods"])
    assert "Traceback" not in capsys.readouterr().err


def test_what_was_listed_is_not_kept_as_it_came(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Listed(dict[str, object]):
        """A manifest that can be told from what was made of it."""

    made: list[weakref.ref[Listed]] = []
    plain_list = api.list_with_version

    def listed(kind: Kind, **_: object) -> tuple[list[Listed], str]:
        objects, version = plain_list(kind)
        copies = [Listed(one) for one in objects]
        made.extend(weakref.ref(one) for one in copies)
        return copies, version

    monkeypatch.setattr(api, "list_with_version", listed)

    with open_watch(api.as_api()) as watch:
        wait_for(lambda: watch.is_current)
        wait_for(lambda: gc.collect() >= 0 and all(one() is None for one in list(made)))

    assert len(made) == 3
