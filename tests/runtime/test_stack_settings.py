"""Stack settings: each kind's keys, and one problem a wrong key."""

from pathlib import Path

import pytest
import yaml
from pydantic.alias_generators import to_camel

from runtime.errors import SettingsError
from runtime.stack_settings import (
    KubernetesClusterSettings,
    LocalClusterSettings,
    RunSettings,
    VolumeSettings,
    parse_settings,
)


def test_a_run_needs_a_cluster_and_one_config() -> None:
    settings = parse_settings(
        {"kind": "run", "cluster": "local", "config": "rl.toml", "attempt": "2"}, stack="run-1"
    )

    assert isinstance(settings, RunSettings)
    assert settings.attempt == 2


def test_secret_keys_never_reach_the_models() -> None:
    values = {"kind": "run", "cluster": "c", "config": "a.toml", "env": "canary"}

    assert "canary" not in repr(parse_settings(values, stack="run-1"))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "paddock:kind: must be one of cluster, volume, run"),
        ({"kind": "pod"}, "paddock:kind: must be one of"),
        ({"kind": "run", "config": "a.toml"}, "paddock:cluster: Field required"),
        ({"kind": "run", "cluster": "c", "config": "a", "gpuTyp": "x"}, "paddock:gpuTyp: no such"),
        ({"kind": "run", "cluster": "c"}, "exactly one of config"),
        ({"kind": "run", "cluster": "c", "config": "a", "attempt": "0"}, "paddock:attempt"),
        (
            {"kind": "run", "cluster": "c", "config": "a", "resumeFrom": "run-1:0"},
            "paddock:resumeFrom: 'run-1:0' is neither RUN nor RUN:STEP",
        ),
        ({"kind": "cluster", "slots": "many"}, "paddock:slots"),
    ],
)
def test_a_wrong_setting_is_named(values: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match="problem") as caught:
        parse_settings(values, stack="run-1")

    assert said in str(caught.value)


def test_a_run_stack_is_named_like_a_run_id() -> None:
    values = {"kind": "run", "cluster": "c", "config": "a.toml"}

    with pytest.raises(SettingsError, match="not a run id"):
        parse_settings(values, stack="Run_1")


def test_a_cluster_defaults_to_the_local_target() -> None:
    settings = parse_settings({"kind": "cluster"}, stack="local")

    assert isinstance(settings, LocalClusterSettings)
    assert settings.target == "local"


def test_every_setting_is_declared_in_the_project_with_an_empty_default() -> None:
    project = yaml.safe_load((Path(__file__).resolve().parents[2] / "Pulumi.yaml").read_text())
    fields = {
        to_camel(name)
        for model in (
            LocalClusterSettings,
            KubernetesClusterSettings,
            VolumeSettings,
            RunSettings,
        )
        for name in model.model_fields
    }

    declared = project["config"]

    assert set(declared) == {f"paddock:{name}" for name in fields}
    assert all(key["type"] == "string" and key["default"] == "" for key in declared.values())


def test_json_settings_may_come_as_text() -> None:
    values = {
        "kind": "cluster",
        "target": "kubernetes",
        "context": "lab",
        "tolerations": '[{"key": "nvidia.com/gpu"}]',
        "pricesUsdPerHour": '{"H200_141GB": 3.5}',
    }

    settings = parse_settings(values, stack="lab")

    assert isinstance(settings, KubernetesClusterSettings)
    assert settings.tolerations[0].key == "nvidia.com/gpu"
    assert settings.prices_usd_per_hour == {"H200_141GB": 3.5}


@pytest.mark.parametrize(
    ("key", "value"), [("pricesUsdPerHour", {"H200": 1.5}), ("gpuTypes", ["H200_141GB", "H200"])]
)
def test_a_gpu_type_that_there_is_not_is_named(key: str, value: object) -> None:
    values = {"kind": "cluster", "target": "kubernetes", "context": "lab", key: value}

    with pytest.raises(SettingsError, match=f"paddock:{key}: H200 is no GPU type"):
        parse_settings(values, stack="lab")

    offer = {"name": "H200", "num_nodes": 1, "gpus_per_node": 8, "price_usd_per_hour": 1}
    assert parse_settings({**values, "gpuOffers": [offer]}, stack="lab")


@pytest.mark.parametrize(
    ("key", "value"),
    [("tolerations", "{"), ("namespace", "Not_One"), ("target", "moon"), ("slots", 4)],
)
def test_a_wrong_kubernetes_setting_is_named(key: str, value: object) -> None:
    values = {"kind": "cluster", "target": "kubernetes", "context": "lab", key: value}

    with pytest.raises(SettingsError, match=f"paddock:{key}"):
        parse_settings(values, stack="lab")
