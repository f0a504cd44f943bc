"""Reading a component's file and flags."""

import json
from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.rl.component_config import read_config
from runtime.rl.views import InferenceView, OrchestratorView, TrainerView

HOSTED = Path(__file__).parents[1] / "data/embedded/hosted-reverse-text.json"


def write(path: Path, table: object) -> str:
    path.write_text(json.dumps(table))
    return str(path)


def test_flags_override_the_file_and_are_dotted(tmp_path: Path):
    file = write(tmp_path / "i.json", {"server": {"port": 8000}, "vllm": {"model": "m"}})

    config = read_config(
        ["@", file, "--server.port", "8101", "--vllm.max-model-len", "64"], InferenceView
    )

    assert (config.server.port, config.vllm.max_model_len, config.vllm.model) == (8101, 64, "m")


def test_a_flag_with_several_words_is_a_list(tmp_path: Path):
    file = write(tmp_path / "o.json", {"model": {"name": "m"}, "output_dir": "runs"})

    config = read_config(
        ["@" + file, "--model.client.admin-base-url", "http://a", "http://b"], OrchestratorView
    )

    assert config.model.client.admin_base_url == ["http://a", "http://b"]


def test_prime_rls_own_dumps_are_read(tmp_path: Path):
    dumps = json.loads(HOSTED.read_text())

    trainer = read_config(["@", write(tmp_path / "t", dumps["trainer.json"])], TrainerView)
    orchestrator = read_config(
        ["@", write(tmp_path / "o", dumps["orchestrator.json"])], OrchestratorView
    )
    read_config(["@", write(tmp_path / "i", dumps["inference.json"])], InferenceView)

    assert trainer.optim.lr == 3e-6
    assert trainer.loss.dppo_mask_low == 0.2
    assert orchestrator.train.source[0].sampling.max_completion_tokens == 512
    assert orchestrator.train.source[0].group_size == 8


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no configuration file"),
        (["@", "missing.json"], "cannot read missing.json"),
        (["@", "missing.json", "stray"], "unexpected argument"),
    ],
)
def test_a_wrong_command_line_is_told(argv: list[str], message: str):
    with pytest.raises(ConfigError, match=message):
        read_config(argv, TrainerView)


def test_a_wrong_field_is_named(tmp_path: Path):
    file = write(tmp_path / "t.json", {"model": {"name": "m"}, "output_dir": "r", "max_steps": "x"})

    with pytest.raises(ConfigError, match="max_steps"):
        read_config(["@", file], TrainerView)
