"""What a run may not bring in is refused at its first `up`, and stops none that exists."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pulumi
import pytest

from infra.run_inputs import RunRequest, read_config
from infra.settings import StackSettings
from runtime.artifacts import RunDirectory
from runtime.cluster import ClusterProfile, GpuOffer, KubernetesConnection, LocalConnection
from runtime.config import load_stored_config
from runtime.errors import ConfigError, SettingsError
from runtime.kubernetes_record import ClusterRecord
from runtime.record import begin_attempt
from runtime.stack_settings import RunSettings, parse_settings
from tests.infra.k8s.placing import profile
from tests.runtime.config.examples import MINIMAL
from tests.runtime.kubernetes.fake_api import serve_fake_api

RUN = "run-1"
WITH_KEY = f"{MINIMAL}\n[orchestrator.model.client.headers]\nAuthorization = 'Bearer canary'\n"
WITH_TOKEN = {"environments": '["x", "git+https://canary@host/x.git"]'}


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """Give this thread an event loop, which Pulumi's outputs ask for; another test may end its."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield
    asyncio.set_event_loop(None)
    made.close()


def request_of(folder: Path, text: str, **settings: object) -> RunRequest:
    """Return the request of a run stack whose TOML holds a text."""
    (folder / "rl.toml").write_text(text)
    values = {"kind": "run", "cluster": "local", "config": "rl.toml", **settings}
    body = parse_settings(values, stack=RUN)
    assert isinstance(body, RunSettings)
    profile = ClusterProfile(
        name="local",
        gpus=(GpuOffer(name="CPU", num_nodes=1, gpus_per_node=4, price_usd_per_hour=0),),
        connection=LocalConnection(state_path=str(folder), cache_path=str(folder)),
        runs_path=str(folder / "runs"),
    )
    stack = StackSettings(
        stack=RUN,
        root=folder,
        body=body,
        env=pulumi.Output.secret({}),
        env_digest=pulumi.Output.secret(""),
        env_names=frozenset(),
    )
    return RunRequest(settings=stack, body=body, profile=profile, volume=None)


def begin(folder: Path, text: str) -> None:
    """Write the record of the run's first attempt with a config."""
    directory = RunDirectory(folder / "runs" / RUN)
    directory.path.mkdir(parents=True)
    digest = load_stored_config(text).digest
    begin_attempt(directory.record, run_id=RUN, config_digest=digest, attempt=1)


def test_a_first_up_by_hand_is_refused_for_a_credential(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Authorization holds a credential") as caught:
        read_config(request_of(tmp_path, WITH_KEY))

    assert "canary" not in str(caught.value)


def test_a_first_up_by_hand_is_refused_for_a_package_with_a_token(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"paddock:environments\[1\]: it holds a u") as caught:
        read_config(request_of(tmp_path, MINIMAL, **WITH_TOKEN))

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("text", "settings"), [(WITH_KEY, {}), (MINIMAL, WITH_TOKEN)])
def test_a_run_that_has_begun_goes_on(tmp_path: Path, text: str, settings: dict[str, str]) -> None:
    begin(tmp_path, text)

    assert read_config(request_of(tmp_path, text, attempt=2, **settings)).text == text


def test_a_run_that_has_begun_without_it_may_not_bring_it_in(tmp_path: Path) -> None:
    begin(tmp_path, MINIMAL)

    with pytest.raises(ConfigError, match="Authorization holds a credential"):
        read_config(request_of(tmp_path, WITH_KEY, attempt=2))


def test_a_run_that_has_begun_in_pods_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = KubernetesConnection(context="fake", namespace="lab")
    request = request_of(tmp_path, WITH_KEY)
    request = replace(request, profile=profile(connection=connection))
    digest = load_stored_config(WITH_KEY).digest
    with serve_fake_api(tmp_path) as (_, api, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        with pytest.raises(ConfigError, match="Authorization holds a credential"):
            read_config(request)

        ClusterRecord(api, RUN).begin_attempt(config_digest=digest, attempt=1)

        assert read_config(request).text == WITH_KEY


def test_what_is_wrong_besides_is_said_with_it(tmp_path: Path) -> None:
    text = f"{WITH_KEY}\n[env_vars]\nLD_PRELOAD = 'x'\n"
    begin(tmp_path, MINIMAL)

    with pytest.raises(ConfigError, match=r"(?s)LD_PRELOAD.*Authorization"):
        read_config(request_of(tmp_path, text))


@pytest.mark.parametrize(("text", "settings"), [(WITH_KEY, {}), (MINIMAL, WITH_TOKEN)])
def test_a_control_plane_has_judged_what_it_makes(
    tmp_path: Path, text: str, settings: dict[str, str]
) -> None:
    assert read_config(request_of(tmp_path, text, controlPlane="cp", **settings)).text == text
