"""What renderers of several model families have in common; the variants are in `renderer`."""

from typing import Literal

from runtime.config.block import Block


class RendererBlock(Block):
    """What all renderers share."""

    thinking_retention: Literal["tool_cycle", "all"] | None = None
    """Which earlier thoughts stay in the prompt; unset = as the model's own template does."""


class ThinkingRenderer(RendererBlock):
    """A renderer of models that think unless told otherwise."""

    enable_thinking: bool = True
    """Let the model think before it answers."""


class VisionRenderer(RendererBlock):
    """A renderer that prepares images."""

    image_cache_max: int = 256
    """Prepared images to keep in memory."""
