"""A run of several nodes on a volume that one node alone can mount, dispatched and resumed."""

from pathlib import Path
from typing import Any

import pytest

from runtime.control import stacks
from runtime.control.dispatcher import volume_stack
from runtime.control.known_clusters import KnownClusters
from runtime.control.next_attempt import NextAttempts
from runtime.control.requests import ResumeRun
from runtime.control.stack_facts import StackFacts
from runtime.control.store import volumes
from runtime.control.store.store import Store
from runtime.control.values import User, VolumeStatus
from runtime.errors import RefusedError, StackError
from tests.engine.sites import ROOT
from tests.runtime.control.operating.dispatching import Dispatching, request
from tests.runtime.judging import profile_of

WIDE = (ROOT / "examples" / "multi-node.toml").read_text()
REFUSAL = "deployment.type: multi_node needs a volume that is ReadWriteMany"


@pytest.fixture
def dispatching(sqlite_store: Store, tmp_path: Path) -> Dispatching:
    """Return a dispatcher with one cluster of nodes."""
    made = Dispatching(store=sqlite_store, folder=tmp_path)
    made.clusters.found["h100"] = profile_of()
    return made


def rich_user(dispatching: Dispatching) -> User:
    """Make a user who can pay for nodes."""
    user = dispatching.user()
    dispatching.credit(user, 10**12)
    return user


def shelf(dispatching: Dispatching, user: User) -> str:
    """Make a volume of the user's and return its stack."""
    new = volumes.NewVolume(
        name="shelf", user_id=user.user_id, size="1Ti", cluster="h100", claim_name="claim"
    )
    with dispatching.store.write() as tx:
        made = volumes.add_volume(tx, new)
        volumes.change_volume(tx, made.volume_id, status=VolumeStatus.RUNNING)
    return volume_stack(made)


def test_it_is_refused_before_anything_is_stored(dispatching: Dispatching) -> None:
    user = rich_user(dispatching)
    dispatching.clusters.shared[shelf(dispatching, user)] = False

    with pytest.raises(RefusedError, match=REFUSAL):
        dispatching.dispatcher.create(user, request(WIDE, volume="shelf"), None)

    assert dispatching.operator.started == []
    assert dispatching.dispatcher.create(user, request(WIDE), None).num_gpus == 32


def test_a_volume_that_does_not_say_is_judged_by_the_cluster(dispatching: Dispatching) -> None:
    user = rich_user(dispatching)
    shelf(dispatching, user)

    assert dispatching.dispatcher.create(user, request(WIDE, volume="shelf"), None).num_gpus == 32


def test_a_resume_is_judged_alike(dispatching: Dispatching) -> None:
    user = rich_user(dispatching)
    stack = shelf(dispatching, user)
    dispatching.clusters.shared[stack] = True
    run = dispatching.dispatcher.create(user, request(WIDE, volume="shelf"), None)
    judge = NextAttempts(store=dispatching.store, clusters=dispatching.clusters)

    assert judge.plan(run, ResumeRun(), StackFacts()).attempt == 2
    dispatching.clusters.shared[stack] = False
    with pytest.raises(RefusedError, match=REFUSAL):
        judge.plan(run, ResumeRun(), StackFacts())


def test_the_stack_is_asked_once_and_one_that_cannot_be_read_says_nothing(
    sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    clusters = KnownClusters(sqlite_store, checkout=ROOT, environ={"HOME": str(tmp_path)})
    answers: list[dict[str, Any] | StackError] = [StackError("no"), {}, {"shared": False}]

    def outputs(project: stacks.Project, stack: str) -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, StackError):
            raise answer
        return answer

    monkeypatch.setattr(stacks, "outputs", outputs)

    found = [clusters.is_shared("volume-one") for _ in range(4)]

    assert found == [None, None, False, False]
