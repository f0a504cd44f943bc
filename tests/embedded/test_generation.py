"""The generator's log-probabilities, batching, filters and weight changes, on a small model."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from runtime.errors import EngineError
from runtime.rl.generation import Generator
from runtime.rl.model import load_model
from runtime.rl.sampling import SamplingParams, draw, processed_logprobs
from runtime.rl.weights import load_weights, publish, save_weights

pytestmark = pytest.mark.embedded

CPU = torch.device("cpu")
TIMEOUT_S = 60


def load(folder: str) -> PreTrainedModel:
    return load_model(folder, device=CPU, dtype=torch.float32)


@pytest.fixture
def generator(raw_model: str) -> Iterator[Generator]:
    torch.set_num_threads(1)
    made = Generator(load(raw_model), max_length=64)
    made.start()
    yield made
    made.pause()


def prompts(count: int) -> list[list[int]]:
    rng = random.Random(0)
    return [[rng.randint(3, 200) for _ in range(rng.randint(1, 20))] for _ in range(count)]


@torch.no_grad()
def recompute(model: PreTrainedModel, prompt: list[int], ids: list[int], temperature: float):
    logits = model(torch.tensor([prompt + ids])).logits[0] / temperature
    rows = logits.log_softmax(-1)[len(prompt) - 1 : -1]
    return rows[torch.arange(len(ids)), torch.tensor(ids)]


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_logprobs_equal_a_recomputation_whatever_the_batch(
    generator: Generator, raw_model: str, temperature: float
):
    model = load(raw_model)
    params = [
        SamplingParams(temperature=temperature, max_tokens=limit, stop_token_ids=frozenset([2]))
        for limit in (3, 9, 20, 1)
    ]
    requests = [
        (prompt, generator.submit(prompt, params[place % 4]))
        for place, prompt in enumerate(prompts(30))
    ]

    for prompt, request in requests:
        found = request.future.result(TIMEOUT_S)
        expected = recompute(model, prompt, found.token_ids, temperature)
        assert torch.allclose(torch.tensor(found.logprobs), expected, atol=1e-4)
        limit = request.params.max_tokens
        assert found.finish_reason == ("stop" if found.token_ids[-1] == 2 else "length")
        assert found.finish_reason == "stop" or len(found.token_ids) == limit


def test_greedy_tokens_do_not_depend_on_company(generator: Generator):
    greedy = SamplingParams(temperature=0, max_tokens=8)
    prompt = prompts(1)[0]
    alone = generator.submit(prompt, greedy).future.result(TIMEOUT_S)

    crowd = [generator.submit(item, greedy) for item in [*prompts(12), prompt]]

    assert crowd[-1].future.result(TIMEOUT_S).token_ids == alone.token_ids


def test_a_prompt_over_the_context_is_refused_and_a_long_answer_is_cut(generator: Generator):
    with pytest.raises(ValueError, match="the prompt has 64 tokens, the context 64"):
        generator.submit([5] * 64, SamplingParams())

    found = generator.submit([5] * 60, SamplingParams()).future.result(TIMEOUT_S)

    assert len(found.token_ids) == 4


def test_weights_change_while_requests_wait(generator: Generator, raw_model: str, tmp_path: Path):
    other = load(raw_model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    save_weights(other, tmp_path)
    prompt = prompts(1)[0]

    generator.pause()
    request = generator.submit(prompt, SamplingParams(max_tokens=5))
    generator.run(lambda model: load_weights(model, tmp_path)).result(TIMEOUT_S)
    generator.resume()
    found = request.future.result(TIMEOUT_S)

    expected = recompute(other, prompt, found.token_ids, 1.0)
    assert torch.allclose(torch.tensor(found.logprobs), expected, atol=1e-4)


def test_wrong_weights_leave_the_model_as_it_was(raw_model: str, tmp_path: Path):
    model = load(raw_model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    save_weights(model, tmp_path)
    from safetensors.torch import load_file, save_file

    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.norm.weight"] = torch.zeros(3)
    save_file(tensors, tmp_path / "model.safetensors")

    with pytest.raises(EngineError, match=r"other shape \['model.norm.weight'\]"):
        load_weights(model, tmp_path)

    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())


def test_broadcasts_are_huggingface_folders_and_old_ones_go(raw_model: str, tmp_path: Path):
    model = load(raw_model)

    for version in range(5):
        publish(model, tmp_path, version)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_3", "step_4"]
    again = load(str(tmp_path / "step_4"))
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_filters_keep_the_likeliest_and_normalise():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))

    def kept(**fields: float) -> list[float]:
        params = SamplingParams(**fields)  # pyright: ignore[reportArgumentType]
        found = processed_logprobs(logits, [params])[0].exp()
        return [round(value, 4) for value in found.tolist()]

    assert kept() == [0.5, 0.3, 0.15, 0.05]
    assert kept(top_k=2) == [0.625, 0.375, 0, 0]
    assert kept(top_p=0.6) == [0.625, 0.375, 0, 0]
    assert kept(min_p=0.25) == [0.5263, 0.3158, 0.1579, 0]


def test_draws_follow_the_distribution():
    logprobs = torch.log(torch.tensor([0.6, 0.3, 0.1])).expand(20_000, 3)
    generator = torch.Generator().manual_seed(0)

    drawn = draw(logprobs, [SamplingParams()] * 20_000, generator)

    shares = torch.bincount(drawn, minlength=3) / 20_000
    assert torch.allclose(shares, torch.tensor([0.6, 0.3, 0.1]), atol=0.02)
