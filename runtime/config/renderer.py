"""`[orchestrator.renderer]`: how messages become tokens, one variant a chat template family.

`name` picks the variant. "auto" looks the model id up in `renderer_models`; a fine-tune's id is not
there, so it must name the renderer of its family.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from runtime.config.renderer_bases import RendererBlock, ThinkingRenderer, VisionRenderer
from runtime.config.renderer_others import (
    DeepSeekR1Renderer,
    DeepSeekV3Renderer,
    GptOssRenderer,
    Hy3Renderer,
    InklingRenderer,
    KimiK2Renderer,
    KimiK25Renderer,
    LagunaM1Renderer,
    LagunaS21Renderer,
    LagunaXS2Renderer,
    LagunaXS21Renderer,
    Llama3Renderer,
    MiniMaxM2Renderer,
    Nemotron3Renderer,
    Nemotron3UltraRenderer,
    Nemotron35Renderer,
)


class AutoRenderer(RendererBlock):
    """The renderer of the model's id."""

    name: Literal["auto"] = "auto"
    """Picks this variant."""


class DefaultRenderer(RendererBlock):
    """The tokenizer's own chat template; further keys are handed to it."""

    model_config = ConfigDict(extra="allow")

    name: Literal["default"] = "default"
    """Picks this variant."""

    tool_parser: str | None = None
    """Parser of tool calls; needed where the environment offers tools."""

    reasoning_parser: str | None = None
    """Parser that separates thoughts from the answer."""


class Qwen3Renderer(ThinkingRenderer):
    """Qwen3."""

    name: Literal["qwen3"] = "qwen3"
    """Picks this variant."""


class PrimeQwen3Renderer(RendererBlock):
    """Prime Intellect's Qwen3 fine-tunes, with tool calls in XML."""

    name: Literal["prime-qwen3"] = "prime-qwen3"
    """Picks this variant."""


class Qwen35Renderer(VisionRenderer):
    """Qwen3.5."""

    name: Literal["qwen3.5"] = "qwen3.5"
    """Picks this variant."""

    enable_thinking: bool | None = None
    """Let the model think; unset = the default of its size."""

    add_vision_id: bool = False
    """Number images and videos in the prompt."""


class Qwen36Renderer(Qwen35Renderer):
    """Qwen3.6."""

    name: Literal["qwen3.6"] = "qwen3.6"  # type: ignore[assignment]  # a variant of its parent
    """Picks this variant."""

    preserve_thinking: bool = False
    """Keep thoughts of earlier turns."""


class Qwen3VLRenderer(VisionRenderer):
    """Qwen3-VL."""

    name: Literal["qwen3-vl"] = "qwen3-vl"
    """Picks this variant."""

    add_vision_id: bool = False
    """Number images and videos in the prompt."""


class Gemma4Renderer(VisionRenderer):
    """Gemma 4."""

    name: Literal["gemma4"] = "gemma4"
    """Picks this variant."""

    enable_thinking: bool = False
    """Let the model think; off, as the model's template has it."""

    preserve_thinking: bool = False
    """Keep thoughts of earlier turns."""


class GLM5Renderer(ThinkingRenderer):
    """GLM-5 and GLM-4.7."""

    name: Literal["glm-5"] = "glm-5"
    """Picks this variant."""

    clear_thinking: bool = True
    """Drop thoughts of earlier turns."""


class GLM51Renderer(ThinkingRenderer):
    """GLM-5.1."""

    name: Literal["glm-5.1"] = "glm-5.1"
    """Picks this variant."""

    clear_thinking: bool = True
    """Drop thoughts of earlier turns."""


class GLM45Renderer(ThinkingRenderer):
    """GLM-4.5."""

    name: Literal["glm-4.5"] = "glm-4.5"
    """Picks this variant."""


Renderer = Annotated[
    AutoRenderer
    | DefaultRenderer
    | Qwen3Renderer
    | PrimeQwen3Renderer
    | Qwen35Renderer
    | Qwen36Renderer
    | Qwen3VLRenderer
    | Gemma4Renderer
    | GLM5Renderer
    | GLM51Renderer
    | GLM45Renderer
    | GptOssRenderer
    | Hy3Renderer
    | InklingRenderer
    | KimiK2Renderer
    | KimiK25Renderer
    | LagunaXS2Renderer
    | LagunaM1Renderer
    | LagunaXS21Renderer
    | LagunaS21Renderer
    | Llama3Renderer
    | MiniMaxM2Renderer
    | Nemotron3Renderer
    | Nemotron3UltraRenderer
    | Nemotron35Renderer
    | DeepSeekV3Renderer
    | DeepSeekR1Renderer,
    Field(discriminator="name"),
]
