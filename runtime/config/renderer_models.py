"""Model ids for which `[orchestrator.renderer] name = "auto"` works, by renderer.

The match is exact, so no fine-tune is in it. Source: renderers 0.1.10.dev13, which the mirrored
prime-rl pins: 61 ids.
"""

BY_RENDERER = {
    "deepseek-r1": ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-R1-0528"),
    "deepseek-v3": ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3-Base"),
    "gemma4": (
        "google/gemma-4-E2B-it",
        "google/gemma-4-E4B-it",
        "google/gemma-4-26B-A4B-it",
        "google/gemma-4-31B-it",
    ),
    "glm-4.5": ("THUDM/GLM-4.5-Air", "zai-org/GLM-4.5-Air"),
    "glm-5": ("zai-org/GLM-5", "zai-org/GLM-5-FP8", "zai-org/GLM-4.7-Flash"),
    "glm-5.1": ("zai-org/GLM-5.1",),
    "gpt-oss": ("openai/gpt-oss-20b", "openai/gpt-oss-120b"),
    "hy3": ("tencent/Hy3", "tencent/Hy3-FP8"),
    "inkling": ("thinkingmachines/Inkling", "thinkingmachines/Inkling-Small"),
    "kimi-k2": ("moonshotai/Kimi-K2-Instruct",),
    "kimi-k2.5": ("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.6"),
    "laguna-m.1": ("poolside/Laguna-M.1",),
    "laguna-s-2.1": ("poolside/Laguna-S-2.1",),
    "laguna-xs-2.1": ("poolside/Laguna-XS-2.1",),
    "laguna-xs.2": ("poolside/Laguna-XS.2",),
    "llama-3": ("meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"),
    "minimax-m2": ("MiniMaxAI/MiniMax-M2", "MiniMaxAI/MiniMax-M2.5"),
    "nemotron-3": (
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    ),
    "nemotron-3-ultra": (
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8",
    ),
    "nemotron-3.5": ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16",),
    "prime-qwen3": ("PrimeIntellect/Qwen3-0.6B", "PrimeIntellect/Qwen3-1.7B"),
    "qwen3": (
        "Qwen/Qwen3-0.6B",
        "Qwen/Qwen3-1.7B",
        "Qwen/Qwen3-4B",
        "Qwen/Qwen3-4B-Instruct-2507",
        "Qwen/Qwen3-4B-Thinking-2507",
        "Qwen/Qwen3-8B",
        "Qwen/Qwen3-14B",
        "Qwen/Qwen3-32B",
        "Qwen/Qwen3-30B-A3B",
        "Qwen/Qwen3-30B-A3B-Instruct-2507",
        "Qwen/Qwen3-30B-A3B-Thinking-2507",
        "Qwen/Qwen3-235B-A22B",
    ),
    "qwen3-vl": (
        "Qwen/Qwen3-VL-4B-Instruct",
        "Qwen/Qwen3-VL-8B-Instruct",
        "Qwen/Qwen3-VL-30B-A3B-Instruct",
    ),
    "qwen3.5": (
        "Qwen/Qwen3.5-0.8B",
        "Qwen/Qwen3.5-2B",
        "Qwen/Qwen3.5-4B",
        "Qwen/Qwen3.5-9B",
        "Qwen/Qwen3.5-35B-A3B",
        "Qwen/Qwen3.5-122B-A10B",
        "Qwen/Qwen3.5-397B-A17B",
    ),
    "qwen3.6": ("Qwen/Qwen3.6-35B-A3B",),
}

RENDERER_MODELS = frozenset(model for models in BY_RENDERER.values() for model in models)
"""All of them."""
