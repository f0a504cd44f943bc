"""Rules about the trainer: model code, offload, precision, schedule, adapters."""

from collections.abc import Iterator

from runtime.config.optim import CosineScheduler, LinearScheduler
from runtime.config.rl import RLConfig
from runtime.config.rules.rule import broken, rule
from runtime.config.trainer_model import MXFP8
from runtime.errors import Problem

_MODEL = "trainer.model"


@rule("trainer.model", "trainer.enable_router_replay")
def transformers_code_can_do_it(config: RLConfig) -> Iterator[Problem]:
    """What only prime-rl's own model code does excludes `impl = "hf"`."""
    model = config.trainer.model
    if model.impl != "hf":
        return
    needs = [
        ("attn", model.attn in ("auto", "flash_attention_4"), "flash_attention_2 or _3"),
        ("cp", model.cp > 1, "1"),
        ("ep", model.ep not in (1, "auto"), "1"),
        ("ac.mode", model.ac is not None and model.ac.mode == "selective", "full"),
        ("quantization", model.quantization is not None, "none"),
    ]
    for key, is_broken, allowed in needs:
        if is_broken:
            yield broken(
                f"{_MODEL}.{key}",
                f'{key} must be {allowed} with trainer.model.impl = "hf"',
                fix='or set impl = "auto"',
            )
    if config.trainer.enable_router_replay:
        yield broken(
            "trainer.enable_router_replay",
            'router replay does not work with trainer.model.impl = "hf"',
            fix='set impl = "auto"',
        )


@rule("trainer.model.trust_remote_code", "trainer.model.impl")
def remote_code_needs_transformers(config: RLConfig) -> Iterator[Problem]:
    """A repository's own code is transformers' business."""
    model = config.trainer.model
    if model.trust_remote_code and model.impl == "custom":
        yield broken(
            f"{_MODEL}.trust_remote_code",
            'trust_remote_code does not go with impl = "custom"',
            fix='set impl = "hf" or "auto"',
        )


@rule("trainer.model", "model")
def vision_language_settings(config: RLConfig) -> Iterator[Problem]:
    """Vision-language training has one implementation and one precision."""
    model = config.trainer.model
    if model.vlm is None:
        return
    if model.impl != "custom":
        yield broken(
            f"{_MODEL}.impl", f'vlm needs impl = "custom", not "{model.impl}"', fix="set it"
        )
    for key in ("optimization_dtype", "reduce_dtype"):
        if getattr(model, key) != "bfloat16":
            yield broken(
                f"{_MODEL}.{key}",
                f'vlm needs {key} = "bfloat16", as inference has it',
                fix="set it",
            )
    if model.cp > 1 and model.cp_style != "ulysses":
        yield broken(f"{_MODEL}.cp_style", 'vlm with cp above 1 needs cp_style = "ulysses"')
    if model.lora is not None and not model.vlm.freeze_vision_encoder:
        yield broken(
            f"{_MODEL}.vlm.freeze_vision_encoder",
            "LoRA freezes the vision encoder, freeze_vision_encoder = false contradicts that",
        )


@rule("trainer.model", "trainer.optim")
def one_offload_at_a_time(config: RLConfig) -> Iterator[Problem]:
    """The three ways to use host memory exclude each other."""
    model, optim = config.trainer.model, config.trainer.optim
    both = model.optim_cpu_offload or model.full_offload is not None
    if model.fsdp_cpu_offload and both:
        yield broken(
            f"{_MODEL}.fsdp_cpu_offload",
            "fsdp_cpu_offload does not go with optim_cpu_offload (on by default) or full_offload",
            fix="set optim_cpu_offload = false and leave full_offload out",
        )
    if model.full_offload is not None and model.optim_cpu_offload:
        yield broken(
            f"{_MODEL}.full_offload",
            "full_offload does not go with optim_cpu_offload, which is on by default",
            fix="set optim_cpu_offload = false",
        )
    if model.full_offload is not None and optim.type not in ("adamw", "sign_sgd"):
        yield broken(
            "trainer.optim.type",
            f'full_offload works with adamw and sign_sgd, not "{optim.type}"',
        )
    if model.fsdp_cpu_offload and optim.type == "muon":
        yield broken("trainer.optim.type", "muon does not go with fsdp_cpu_offload")


@rule("trainer.model")
def model_settings_go_together(config: RLConfig) -> Iterator[Problem]:
    """Smaller rules of the model table."""
    model = config.trainer.model
    if model.ac is not None and model.ac.mode == "selective" and not model.ac.targets:
        yield broken(f"{_MODEL}.ac.targets", "selective mode needs at least one target")
    if model.ep_comm_backend == "deepep" and model.ep == 1:
        yield broken(f"{_MODEL}.ep_comm_backend", "deepep needs ep above 1", fix='set ep = "auto"')
    if isinstance(model.quantization, MXFP8) and model.ep_comm_backend != "torch":
        yield broken(f"{_MODEL}.ep_comm_backend", 'mxfp8 needs ep_comm_backend = "torch"')


@rule("trainer.model.seq_len", "trainer.model.cp", "seq_len")
def sequences_split_evenly(config: RLConfig) -> Iterator[Problem]:
    """Upstream checks only in the running trainer that a sequence splits into 2 x cp parts."""
    model = config.trainer.model
    if model.seq_len % (2 * model.cp):
        yield broken(
            f"{_MODEL}.seq_len",
            f"seq_len {model.seq_len} is not divisible by 2 x cp = {2 * model.cp}",
            fix=f"use {model.seq_len // (2 * model.cp) * 2 * model.cp or 2 * model.cp}",
        )


@rule("trainer.scheduler", "trainer.max_steps", "max_steps")
def schedule_fits_the_steps(config: RLConfig) -> Iterator[Problem]:
    """A schedule with an end needs the run's end."""
    scheduler, max_steps = config.trainer.scheduler, config.trainer.max_steps
    loc = "trainer.scheduler"
    if isinstance(scheduler, CosineScheduler):
        if max_steps is None:
            yield broken(loc, "a cosine schedule needs max_steps", fix="set max_steps")
        elif scheduler.warmup_steps >= max_steps:
            yield broken(
                f"{loc}.warmup_steps",
                f"warmup_steps {scheduler.warmup_steps} must be under max_steps {max_steps}",
            )
    if isinstance(scheduler, LinearScheduler):
        steps = scheduler.warmup_steps + scheduler.decay_steps
        if steps == 0:
            yield broken(loc, "a linear schedule needs warmup_steps or decay_steps above 0")
        elif scheduler.decay_steps and max_steps is None:
            yield broken(
                loc,
                "a linear schedule that decays needs max_steps",
                fix="set max_steps, or decay_steps = 0",
            )
        elif scheduler.decay_steps and max_steps is not None and steps > max_steps:
            yield broken(
                loc,
                f"warmup_steps {scheduler.warmup_steps} + decay_steps {scheduler.decay_steps} = "
                f"{steps} is over max_steps {max_steps}",
            )


@rule("trainer.trace_path", "trainer.max_steps", "max_steps")
def traces_are_short(config: RLConfig) -> Iterator[Problem]:
    """A profiler trace of many steps fills a disk."""
    trainer = config.trainer
    if trainer.trace_path is not None and (trainer.max_steps is None or trainer.max_steps >= 10):
        yield broken("trainer.trace_path", "a trace needs max_steps below 10", fix="set max_steps")


@rule("trainer.model.lora", "orchestrator.model.lora", "weight_broadcast")
def adapters_travel_as_files(config: RLConfig) -> Iterator[Problem]:
    """LoRA has one broadcast, and one rank and scale on both sides."""
    lora, served = config.trainer.model.lora, config.orchestrator.model.lora
    if lora is None:
        return
    broadcast = config.weight_broadcast
    if broadcast is not None and broadcast.type != "filesystem":
        yield broken(
            "weight_broadcast.type",
            f'LoRA ([trainer.model.lora]) cannot be broadcast over "{broadcast.type}"',
            fix='set weight_broadcast.type = "filesystem", or leave [weight_broadcast] out',
        )
    for key in ("rank", "alpha"):
        written = getattr(served, key, None)
        if written is not None and written != getattr(lora, key):
            yield broken(
                f"orchestrator.model.lora.{key}",
                f"{key} {written} disagrees with trainer.model.lora.{key} {getattr(lora, key)}",
                fix="leave the orchestrator's out",
            )


RULES = (
    transformers_code_can_do_it,
    remote_code_needs_transformers,
    vision_language_settings,
    one_offload_at_a_time,
    model_settings_go_together,
    sequences_split_evenly,
    schedule_fits_the_steps,
    traces_are_short,
    adapters_travel_as_files,
)
