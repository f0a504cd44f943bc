"""A byte-level tokenizer with Qwen3's chat tokens, made here, for the tiny model.

Every byte is a token, so any text can be written; the words that each chat prompt repeats are
tokens of their own, so that prompts stay short. The chat template renders as the `prime-qwen3`
renderer does.
"""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP_TOKENS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
PROMPT_TOKENS = (
    "system\n",
    "user\n",
    "assistant\n",
    "Reverse the text.",
    "Add the numbers.",
)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def save_tokenizer(folder: Path, *, max_length: int) -> PreTrainedTokenizerFast:
    """Write the tokenizer's files into a folder and return the tokenizer."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL_TOKENS)}
    for character in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocabulary[character] = len(vocabulary)
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    core.add_tokens([AddedToken(token, normalized=False) for token in MARKUP_TOKENS])
    core.add_tokens([AddedToken(token, normalized=False) for token in PROMPT_TOKENS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|im_end|>",  # noqa: S106 - a token of text
        pad_token="<|endoftext|>",  # noqa: S106 - a token of text
        model_max_length=max_length,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    return tokenizer
