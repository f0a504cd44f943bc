"""What the embedded engine needs in pods: models by name, flags from files, health, a router."""

import json
import urllib.request
from pathlib import Path

import pytest

from runtime.errors import EngineError
from runtime.rl.component_config import read_config
from runtime.rl.policy import Policy
from runtime.rl.views import InferenceView, MetricsServerView


def test_a_table_of_flags_may_come_from_a_file(tmp_path: Path):
    config, overrides = tmp_path / "inference.json", tmp_path / "rank.json"
    config.write_text(json.dumps({"vllm": {"model": "m", "seed": 1}}))
    overrides.write_text(json.dumps({"seed": 7, "data_parallel_rank": 2}))

    read = read_config(
        ["@", str(config), "--server.host", "0.0.0.0", "--vllm", "@", str(overrides)],
        InferenceView,
    )

    assert (read.vllm.model, read.vllm.seed, read.server.host) == ("m", 7, "0.0.0.0")


def test_episodes_go_to_the_router_where_one_stands_before_the_engines(tmp_path: Path):
    engines = ["http://a:8100/v1", "http://b:8100/v1"]

    alone = Policy(engines, tmp_path)
    routed = Policy(engines, tmp_path, router_url="http://r:8000/v1")

    assert (alone.api_urls, routed.api_urls) == (engines, ["http://r:8000/v1"])


@pytest.mark.embedded
def test_a_model_is_found_by_its_name_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from huggingface_hub import constants

    from runtime.rl.model import model_folder

    entry = tmp_path / "models--paddock--tiny"
    snapshot = entry / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (entry / "refs").mkdir()
    (entry / "refs/main").write_text("0" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    assert model_folder("paddock/tiny") == snapshot
    assert model_folder(str(snapshot)) == snapshot
    for name in ("paddock/other", str(tmp_path / "none")):
        with pytest.raises(EngineError, match="no model at"):
            model_folder(name)


@pytest.mark.embedded
def test_the_trainer_answers_that_it_lives():
    from runtime.rl.health import serve_health

    port = serve_health(MetricsServerView(host="127.0.0.1", port=0))

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
        assert answer.status == 200
