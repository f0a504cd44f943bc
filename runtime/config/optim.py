"""`[trainer.optim]`, `[trainer.scheduler]` and `[trainer.loss]`: how a batch becomes an update."""

from typing import Annotated, Any, Literal

from pydantic import Field

from runtime.config.block import Block, NonNegative


class Optimizer(Block):
    """What all optimizers share."""

    lr: NonNegative = 1e-6
    """Peak learning rate; the default suits full fine-tuning of a large model."""

    weight_decay: NonNegative = 0.01
    """Decoupled weight decay."""

    max_norm: NonNegative | None = 1.0
    """Gradients are clipped to this norm; "None" turns clipping off."""


class SGD(Optimizer):
    """Stochastic gradient descent."""

    type: Literal["sgd"] = "sgd"
    """Picks this variant."""

    nesterov: bool = True
    """Use Nesterov's form of momentum."""

    momentum: float = 0.9
    """Momentum factor."""


class AdamW(Optimizer):
    """AdamW, the default."""

    type: Literal["adamw"] = "adamw"
    """Picks this variant; may be left out."""

    betas1: NonNegative = 0.9
    """Decay of the mean of gradients."""

    betas2: NonNegative = 0.999
    """Decay of the mean of squared gradients."""


class Muon(Optimizer):
    """Muon for matrices, AdamW for the rest."""

    type: Literal["muon"] = "muon"
    """Picks this variant; not together with `trainer.model.fsdp_cpu_offload`."""

    mu: NonNegative = 0.95
    """Momentum of the matrix update."""

    betas1: NonNegative = 0.9
    """Decay of the mean of gradients, AdamW part."""

    betas2: NonNegative = 0.95
    """Decay of the mean of squared gradients, AdamW part."""


class SignSGD(Optimizer):
    """Sign descent, which keeps no state."""

    type: Literal["sign_sgd"] = "sign_sgd"
    """Picks this variant."""


class ConstantScheduler(Block):
    """The learning rate stays as it is."""

    type: Literal["constant"] = "constant"
    """Picks this variant; may be left out."""


class LinearScheduler(Block):
    """Linear warm-up, plateau, linear decay at the end."""

    type: Literal["linear"] = "linear"
    """Picks this variant."""

    warmup_steps: Annotated[int, Field(ge=0)] = 10
    """Steps from 0 up to the peak."""

    decay_steps: Annotated[int, Field(ge=0)] = 10
    """Last steps, down to `min_lr`; more than 0 needs `max_steps`."""

    min_lr: NonNegative = 0.0
    """Learning rate at the end of the decay."""


class CosineScheduler(Block):
    """Linear warm-up, then half a cosine down to the last step."""

    type: Literal["cosine"] = "cosine"
    """Picks this variant; needs `max_steps`."""

    warmup_steps: Annotated[int, Field(ge=0)] = 10
    """Steps from 0 up to the peak; fewer than `max_steps`."""

    min_lr: NonNegative = 0.0
    """Learning rate at the last step."""


class DefaultLoss(Block):
    """Policy gradient that masks tokens which drifted too far from the policy that sampled them."""

    type: Literal["default"] = "default"
    """Picks this variant; may be left out."""

    dppo_mask_low: NonNegative = 0.2
    """Tokens whose probability fell by more than this are masked."""

    dppo_mask_high: NonNegative = 0.2
    """Tokens whose probability rose by more than this are masked."""

    adv_tau: NonNegative = 1.0
    """Weight of the advantage term."""

    kl_tau: NonNegative = 1e-3
    """Weight of the penalty on distance from the sampling policy."""


class IPOLoss(Block):
    """Policy gradient with one symmetric threshold on the change of probability."""

    type: Literal["ipo"] = "ipo"
    """Picks this variant."""

    ipo_threshold: NonNegative = 0.1
    """Largest change of a token's probability that still trains."""

    adv_tau: NonNegative = 1.0
    """Weight of the advantage term."""

    kl_tau: NonNegative = 1e-3
    """Weight of the penalty on distance from the sampling policy."""


class CustomLoss(Block):
    """A function of the user's."""

    type: Literal["custom"] = "custom"
    """Picks this variant."""

    import_path: str
    """Dotted path of the function; imported by the trainer, never by paddock."""

    kwargs: dict[str, Any] = {}  # handed to the user's function as they are
    """Keyword arguments for it."""


Optim = Annotated[SGD | AdamW | Muon | SignSGD, Field(discriminator="type")]
Scheduler = Annotated[
    ConstantScheduler | LinearScheduler | CosineScheduler, Field(discriminator="type")
]
Loss = Annotated[DefaultLoss | IPOLoss | CustomLoss, Field(discriminator="type")]
