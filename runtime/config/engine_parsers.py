"""vLLM's parsers of tool calls and thoughts for model ids, where `[inference.vllm]` says "auto".

Rows are tried in order; a row matches ids that start with its text. Source: prime-rl at the
mirrored revision, by behaviour.
"""

import re

TOOL_CALL_PARSERS = (
    ("arcee-ai/Trinity-Large-Thinking", "qwen3_coder"),
    ("arcee-ai/Trinity-", "hermes"),
    ("deepseek-ai/DeepSeek-V3.2", "deepseek_v32"),
    ("deepseek-ai/DeepSeek-V3.1", "deepseek_v31"),
    ("zai-org/GLM-4.5", "glm45"),
    ("zai-org/GLM-4.7", "glm47"),
    ("zai-org/GLM-5", "glm47"),
    ("MiniMaxAI/MiniMax-M2", "minimax_m2"),
    ("openai/gpt-oss", "openai"),
    ("poolside/Laguna", "poolside_v1"),
    ("PrimeIntellect/INTELLECT-3", "qwen3_coder"),
    ("nvidia/NVIDIA-Nemotron-3", "qwen3_coder"),
    ("stepfun-ai/Step-3.5", "step3p5"),
    ("Qwen/Qwen3.5-", "qwen3_coder"),
    ("Qwen/Qwen3.6-", "qwen3_coder"),
    ("Qwen/Qwen3.8-", "qwen3_coder"),
    ("Qwen/Qwen3-Coder", "qwen3_coder"),
    ("Qwen/Qwen3-", "hermes"),
)

REASONING_PARSERS = (
    ("arcee-ai/Trinity-Large-Thinking", "deepseek_r1"),
    ("arcee-ai/Trinity-Mini", "deepseek_r1"),
    ("arcee-ai/Trinity-Nano", "deepseek_r1"),
    ("deepseek-ai/DeepSeek-V3.1", "deepseek_r1"),
    ("deepseek-ai/DeepSeek-V3.2", "deepseek_r1"),
    ("zai-org/GLM-", "glm45"),
    ("MiniMaxAI/MiniMax-M2", "minimax_m2_append_think"),
    ("poolside/Laguna", "poolside_v1"),
    ("PrimeIntellect/INTELLECT-3", "deepseek_r1"),
    ("nvidia/NVIDIA-Nemotron-3-Super", "nemotron_v3"),
    ("nvidia/NVIDIA-Nemotron-3-Nano", "nano_v3"),
    ("nvidia/NVIDIA-Nemotron-3.5", "nano_v3"),
    ("stepfun-ai/Step-3.5", "step3p5"),
    ("Qwen/Qwen3.5-", "qwen3"),
    ("Qwen/Qwen3.6-", "qwen3"),
    ("Qwen/Qwen3.8-", "qwen3"),
)
_THINKING_QWEN3 = re.compile(r"Qwen/Qwen3-.*Thinking")


def tool_call_parser(model: str) -> str | None:
    """Return the parser of a model's tool calls, None where none is known."""
    return next((parser for start, parser in TOOL_CALL_PARSERS if model.startswith(start)), None)


def reasoning_parser(model: str) -> str | None:
    """Return the parser of a model's thoughts, None where none is known."""
    if _THINKING_QWEN3.match(model):
        return "deepseek_r1"
    return next((parser for start, parser in REASONING_PARSERS if model.startswith(start)), None)
