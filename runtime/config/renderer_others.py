"""The renderers of gpt-oss and of the families after it; the union of all is in `renderer`."""

from typing import Literal

from runtime.config.renderer_bases import RendererBlock, ThinkingRenderer, VisionRenderer


class GptOssRenderer(RendererBlock):
    """gpt-oss (the harmony format)."""

    name: Literal["gpt-oss"] = "gpt-oss"
    """Picks this variant."""

    reasoning_effort: Literal["low", "medium", "high"] = "medium"
    """How much the model thinks."""

    conversation_start_date: str | None = None
    """Date in the system message; unset = none."""

    use_system_prompt: bool = True
    """Write the system message of the format."""

    knowledge_cutoff: str | None = None
    """Cut-off in the system message; unset = the model's."""

    model_identity: str | None = None
    """Who the model says it is; unset = the model's default."""

    auto_drop_analysis: bool = True
    """Drop the analysis channel of finished turns."""


class Hy3Renderer(RendererBlock):
    """Hunyuan 3."""

    name: Literal["hy3"] = "hy3"
    """Picks this variant."""

    reasoning_effort: Literal["no_think", "low", "high"] = "no_think"
    """How much the model thinks."""

    preserved_thinking: bool | None = None
    """Keep thoughts of earlier turns; unset = by effort."""

    is_training: bool = False
    """Render the way the model's own training did."""

    raw_last_assistant: bool = False
    """Leave the last assistant message as it is."""

    fallback_strategy: Literal["reasoning_toolcall_retry"] | None = None
    """What to do with a tool call inside a thought."""


class InklingRenderer(VisionRenderer):
    """Inkling."""

    name: Literal["inkling"] = "inkling"
    """Picks this variant."""

    reasoning_effort: str | float = 0.9
    """How much the model thinks, a level or a share."""

    audio_cache_max: int = 256
    """Prepared audio clips to keep in memory."""


class KimiK2Renderer(ThinkingRenderer):
    """Kimi K2."""

    name: Literal["kimi-k2"] = "kimi-k2"
    """Picks this variant."""


class KimiK25Renderer(VisionRenderer):
    """Kimi K2.5 and K2.6."""

    name: Literal["kimi-k2.5"] = "kimi-k2.5"
    """Picks this variant."""

    thinking: bool = True
    """Let the model think."""


class RawLagunaRenderer(RendererBlock):
    """What the first Laguna renderers share."""

    enable_thinking: bool = False
    """Let the model think; off, as the model's template has it."""

    render_assistant_messages_raw: bool = False
    """Leave assistant messages as they are."""


class LagunaXS2Renderer(RawLagunaRenderer):
    """Laguna XS.2."""

    name: Literal["laguna-xs.2"] = "laguna-xs.2"
    """Picks this variant."""


class LagunaM1Renderer(RawLagunaRenderer):
    """Laguna M.1."""

    name: Literal["laguna-m.1"] = "laguna-m.1"
    """Picks this variant."""


class LagunaXS21Renderer(RendererBlock):
    """Laguna XS 2.1."""

    name: Literal["laguna-xs-2.1"] = "laguna-xs-2.1"
    """Picks this variant."""

    enable_thinking: bool = False
    """Let the model think; off, as the model's template has it."""


class LagunaS21Renderer(ThinkingRenderer):
    """Laguna S 2.1."""

    name: Literal["laguna-s-2.1"] = "laguna-s-2.1"
    """Picks this variant."""

    preserve_thinking: bool = False
    """Keep thoughts of earlier turns."""


class Llama3Renderer(RendererBlock):
    """Llama 3.2."""

    name: Literal["llama-3"] = "llama-3"
    """Picks this variant."""

    date_string: str = "26 Jul 2024"
    """Date in the system message; the template's own."""

    tools_in_user_message: bool = True
    """Describe tools in the first user message instead of the system's."""


class MiniMaxM2Renderer(RendererBlock):
    """MiniMax M2."""

    name: Literal["minimax-m2"] = "minimax-m2"
    """Picks this variant."""

    model_identity: str = (
        "You are a helpful assistant. Your name is MiniMax-M2.5 and is built by MiniMax."
    )
    """System message when there is none; the template's own."""


class NemotronRenderer(ThinkingRenderer):
    """What the Nemotron renderers share."""

    truncate_history_thinking: bool = True
    """Drop thoughts of earlier turns."""


class Nemotron3Renderer(NemotronRenderer):
    """Nemotron 3 Nano and Super."""

    name: Literal["nemotron-3"] = "nemotron-3"
    """Picks this variant."""

    low_effort: bool = False
    """Ask for short thoughts."""


class Nemotron3UltraRenderer(NemotronRenderer):
    """Nemotron 3 Ultra."""

    name: Literal["nemotron-3-ultra"] = "nemotron-3-ultra"
    """Picks this variant."""

    medium_effort: bool = False
    """Ask for thoughts of medium length."""


class Nemotron35Renderer(NemotronRenderer):
    """Nemotron 3.5."""

    name: Literal["nemotron-3.5"] = "nemotron-3.5"
    """Picks this variant."""


class DeepSeekV3Renderer(RendererBlock):
    """DeepSeek V3."""

    name: Literal["deepseek-v3"] = "deepseek-v3"
    """Picks this variant."""


class DeepSeekR1Renderer(RendererBlock):
    """DeepSeek R1."""

    name: Literal["deepseek-r1"] = "deepseek-r1"
    """Picks this variant."""
