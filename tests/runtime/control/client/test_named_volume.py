"""`paddock train FILE --volume NAME` for a volume that is absent, under way, or of no use."""

from pathlib import Path

import pytest

from runtime.client.errors import UnreachableError
from runtime.commands.remote import named_volume
from runtime.control.requests import CreateVolume
from runtime.control.store import volumes
from runtime.control.values import User, Volume, VolumeStatus
from tests.runtime.control.api.fakes import FakeDispatcher, FakeVolumes
from tests.runtime.control.api.server import ApiServer
from tests.runtime.control.client.command import Paddock
from tests.runtime.control.client.conftest import SEED

pytestmark = pytest.mark.control

NUM_LOOKS = 3


class SlowVolumes(FakeVolumes):
    """Volumes whose change ends after some looks at the list, in a status with a reason."""

    end = VolumeStatus.RUNNING
    reason = ""
    num_looks = 0

    def create(self, user: User, request: CreateVolume) -> Volume:
        """Make one that is not ready."""
        made = super().create(user, request)
        return self._change(made, VolumeStatus.PENDING, "")

    def page(self, user: User, team_id: str | None) -> tuple[Volume, ...]:
        """Return all, as they are at this look."""
        self.num_looks += 1
        found = super().page(user, team_id)
        if self.num_looks <= NUM_LOOKS:
            return found
        return tuple(self._change(one, self.end, self.reason) for one in found)

    def _change(self, volume: Volume, status: VolumeStatus, reason: str) -> Volume:
        with self.store.write() as connection:
            changed = volumes.change_volume(
                connection, volume.volume_id, status=status, reason=reason
            )
        assert changed is not None
        return changed


@pytest.fixture
def slow(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> SlowVolumes:
    """Make the volumes of the server slow, and the client impatient."""
    monkeypatch.setattr(named_volume, "_LOOK_S", 0.0)
    made = SlowVolumes(store=api.store)
    object.__setattr__(api.services, "volumes", made)  # frozen, and this test's own
    return made


def volumes_of_dispatches(api: ApiServer) -> list[str | None]:
    """Return the volume of each dispatch that the server was asked for."""
    dispatcher = api.services.dispatcher
    assert isinstance(dispatcher, FakeDispatcher)
    return [request.volume for request in dispatcher.seen]


def test_an_absent_volume_is_made_and_waited_for(
    as_ada: Paddock, api: ApiServer, slow: SlowVolumes
) -> None:
    said = as_ada.train(str(SEED), "--volume", "new", "--volume-size", "1Ti")

    assert said.out.startswith("Dispatched hosted run ")
    assert said.err.splitlines() == [
        "Volume new does not exist: making it",
        "Volume new is PENDING",
    ]
    assert slow.num_looks == NUM_LOOKS + 1
    assert volumes_of_dispatches(api) == ["new"]
    [made] = as_ada("volumes", "list", "-o", "json").json()
    assert (made["name"], made["status"], made["size"]) == ("new", "RUNNING", "1Ti")


def test_the_file_names_the_volume_and_its_size_where_no_flag_does(
    as_ada: Paddock, tmp_path: Path, slow: SlowVolumes
) -> None:
    text = f'volume = "filed"\nvolume_size = "2Ti"\n{SEED.read_text()}'
    (tmp_path / "rl.toml").write_text(text)

    as_ada.train("rl.toml")

    [made] = as_ada("volumes", "list", "-o", "json").json()
    assert (made["name"], made["size"]) == ("filed", "2Ti")


def test_a_volume_that_an_earlier_command_left_under_way_is_waited_for(
    as_ada: Paddock, api: ApiServer, slow: SlowVolumes
) -> None:
    assert as_ada("volumes", "create", "new", "--size", "1Ti").code == 0

    said = as_ada.train(str(SEED), "--volume", "new", "--volume-size", "9Ti")

    assert said.err.splitlines() == [
        "Volume new is there already (1Ti): size 9Ti is not used, see paddock volumes expand",
        "Volume new is PENDING",
    ]
    assert volumes_of_dispatches(api) == ["new"]


def test_a_volume_that_fails_is_told_with_its_reason_and_nothing_is_dispatched(
    as_ada: Paddock, api: ApiServer, slow: SlowVolumes
) -> None:
    slow.end, slow.reason = VolumeStatus.FAILED, "no StorageClass"

    said = as_ada("train", str(SEED), "--volume", "new")

    assert said.code == 2
    assert "volume: volume new is FAILED: no StorageClass (delete it" in said.err
    assert volumes_of_dispatches(api) == []


def test_a_volume_that_is_not_ready_in_time_is_waited_for_by_the_next_command(
    as_ada: Paddock, api: ApiServer, slow: SlowVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(named_volume, "READY_S", 0.0)
        late = as_ada("train", str(SEED), "--volume", "new")
    again = as_ada("train", str(SEED), "--volume", "new")

    assert late.code == 7
    assert "volume: volume new is PENDING after 0 s (the same command goes on" in late.err
    assert again.code == 0
    assert volumes_of_dispatches(api) == ["new"]


def test_a_look_that_gets_no_answer_is_repeated(
    as_ada: Paddock, api: ApiServer, slow: SlowVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = named_volume.catalog.list_volumes
    looks = iter([True, False, True, True, True, True, True])

    def list_volumes(api: object) -> object:
        if next(looks):
            return listed(api)  # type: ignore[arg-type]  # passed on
        raise UnreachableError("away")

    monkeypatch.setattr(named_volume.catalog, "list_volumes", list_volumes)
    as_ada.train(str(SEED), "--volume", "new")

    assert volumes_of_dispatches(api) == ["new"]


def test_a_volume_that_the_server_refuses_is_not_said_to_be_made(
    as_ada: Paddock, api: ApiServer
) -> None:
    said = as_ada("train", str(SEED), "--volume", "No_Good")

    assert said.code == 2
    assert "a volume's name has up to 63 of a-z, 0-9 and '-'" in said.err
    assert "making it" not in said.err
    assert not volumes_of_dispatches(api)


def test_no_volume_is_made_for_a_file_that_is_wrong(
    as_ada: Paddock, tmp_path: Path, slow: SlowVolumes
) -> None:
    (tmp_path / "rl.toml").write_text(SEED.read_text().replace("seq_len = 2048", 'seq_len = "x"'))

    said = as_ada("train", "rl.toml", "--volume", "new")

    assert said.code == 2
    assert "  seq_len: " in said.err
    assert "No volumes" in as_ada("volumes", "list").out


def test_a_run_that_starts_with_another_ones_checkpoint_makes_no_volume(
    as_ada: Paddock, slow: SlowVolumes, run_id: str
) -> None:
    said = as_ada("train", str(SEED), "--resume-from", run_id, "--volume", "new")

    assert said.code == 2
    assert "there is no volume 'new'" in said.err
    assert "No volumes" in as_ada("volumes", "list").out
