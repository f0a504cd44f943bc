"""The warm-up of the tiny model: a supervised run of seconds (see `runtime.rl.tiny_model`).

Shapes: B examples, T tokens, N answer tokens.
"""

import random
from itertools import islice
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from runtime.rl.model import use_threads
from runtime.rl.tiny_model import Progress, Recipe, examples
from runtime.rl.tiny_tokenizer import save_tokenizer
from runtime.rl.weights import save_weights

_WARMUP_STEPS = 30
_FINAL_LR_SHARE = 0.1
_REPORT_EVERY = 100


def make_model(folder: Path, recipe: Recipe, *, progress: Progress) -> None:
    """Write tokenizer, config and warmed-up weights into a folder."""
    use_threads()  # two threads that share two busy cores take ten times as long as one
    torch.manual_seed(recipe.seed)
    tokenizer = save_tokenizer(folder, max_length=recipe.max_length)
    model = Qwen3ForCausalLM(_config(recipe, tokenizer))
    _warm_up(model, tokenizer, recipe, progress=progress)
    save_weights(model, folder)


def _config(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3Config:
    return Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden_size,
        intermediate_size=recipe.intermediate_size,
        num_hidden_layers=recipe.num_layers,
        num_attention_heads=recipe.num_heads,
        num_key_value_heads=recipe.num_kv_heads,
        head_dim=recipe.head_dim,
        max_position_embeddings=recipe.max_length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.vocab["<|im_end|>"],
        pad_token_id=tokenizer.vocab["<|endoftext|>"],
    )


def _warm_up(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Recipe,
    *,
    progress: Progress,
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, betas=(0.9, 0.98))
    rng = random.Random(recipe.seed)
    learn = examples(recipe, rng, right_share=1.0)
    soften = examples(recipe, rng, right_share=recipe.right_share)
    num_steps = recipe.learn_steps + recipe.soften_steps
    for step in range(1, num_steps + 1):
        stream = learn if step <= recipe.learn_steps else soften
        share = 1 - (1 - _FINAL_LR_SHARE) * step / num_steps
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * min(1.0, step / _WARMUP_STEPS) * share
        loss = _loss(model, *_encode(tokenizer, list(islice(stream, recipe.batch_size))))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % _REPORT_EVERY == 0 or step == num_steps:
            progress(f"Warm-up step {step}/{num_steps} | Loss {loss.item():.3f}")


def _loss(model: Qwen3ForCausalLM, ids_BT: torch.Tensor, answer_BT: torch.Tensor) -> torch.Tensor:
    hidden_BTH = model.model(input_ids=ids_BT).last_hidden_state
    predicting_BT = answer_BT[:, 1:]
    logits_NV = model.lm_head(hidden_BTH[:, :-1][predicting_BT])
    return torch.nn.functional.cross_entropy(logits_NV, ids_BT[:, 1:][predicting_BT])


def _encode(
    tokenizer: PreTrainedTokenizerFast, batch: list[tuple[str, str, str]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and a mask of the answer with its end token, padded on the right."""
    rows: list[tuple[list[int], int]] = []
    core = tokenizer.backend_tokenizer
    for instruction, prompt, answer in batch:
        head = (
            f"<|im_start|>system\n{instruction}<|im_end|>\n"
            f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        )
        head_ids = core.encode(head).ids
        rows.append((head_ids + core.encode(f"{answer}<|im_end|>").ids, len(head_ids)))
    width = max(len(ids) for ids, _ in rows)
    ids_BT = torch.zeros(len(rows), width, dtype=torch.long)
    answer_BT = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, (ids, head) in enumerate(rows):
        ids_BT[row, : len(ids)] = torch.tensor(ids)
        answer_BT[row, head : len(ids)] = True
    return ids_BT, answer_BT
