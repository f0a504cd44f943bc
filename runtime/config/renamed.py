"""Keys of older prime-rl and of other tools, with what they are called now: for messages only.

prime-rl translates none of them, and neither does paddock: two spellings of one setting would have
to be kept apart forever. A pattern's "*" stands for any one part of the path.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from runtime.config.schema_walk import Loc


@dataclass(frozen=True, kw_only=True, slots=True)
class Renamed:
    """A key that is gone, and the advice to whoever writes it."""

    old: str
    advice: str


_SOURCE = "write [[orchestrator.train.source]] with env.taskset.id (flat env tables were removed)"
_EVAL_SOURCE = (
    "write [[orchestrator.eval.source]] with env.taskset.id (flat env tables were removed)"
)
_ENGINE = "engine arguments are now under [inference.vllm], by vLLM's names"
_GPUS = "size the run with [deployment]: num_train_gpus and num_infer_gpus"
_TEACHER = (
    "write [orchestrator.algo] with type and teacher; a teacher or judge is served elsewhere, "
    "paddock starts none"
)

RENAMED = (
    Renamed(old="orchestrator.train.env", advice=_SOURCE),
    Renamed(old="orchestrator.env", advice=_SOURCE),
    Renamed(old="orchestrator.environment", advice=_SOURCE),
    Renamed(old="orchestrator.eval.env", advice=_EVAL_SOURCE),
    Renamed(old="orchestrator.train.source.*.id", advice="now env.taskset.id"),
    Renamed(old="orchestrator.train.source.*.args", advice="now keys of env.taskset"),
    Renamed(old="orchestrator.eval.source.*.id", advice="now env.taskset.id"),
    Renamed(old="orchestrator.eval.source.*.args", advice="now keys of env.taskset"),
    Renamed(old="orchestrator.sampling", advice="now orchestrator.train.sampling"),
    Renamed(old="*.sampling.max_tokens", advice="now max_completion_tokens"),
    Renamed(
        old="orchestrator.train.*sampling.top_?",
        advice="training samples at temperature alone; pass others in sampling.extra_body",
    ),
    Renamed(old="orchestrator.rollouts_per_example", advice="now orchestrator.group_size"),
    Renamed(old="*.rollouts_per_example", advice="now group_size"),
    Renamed(old="rollouts_per_example", advice="now orchestrator.group_size"),
    Renamed(
        old="orchestrator.eval.eval_base_model",
        advice="now skip_first_step, with the opposite value",
    ),
    Renamed(
        old="orchestrator.buffer",
        advice="removed: see curriculum of a source, and orchestrator.train.filter_zero_advantages",
    ),
    Renamed(old="orchestrator.advantage", advice="now [orchestrator.algo]"),
    Renamed(
        old="orchestrator.filters", advice="removed: see curriculum.gates of a training source"
    ),
    Renamed(old="orchestrator.client", advice="now orchestrator.model.client"),
    Renamed(
        old="orchestrator.max_inflight_rollouts",
        advice="now orchestrator.concurrency.max_inflight",
    ),
    Renamed(old="orchestrator.max_concurrent", advice="now orchestrator.concurrency.max_inflight"),
    Renamed(
        old="orchestrator.oversampling_factor",
        advice="removed: orchestrator.concurrency adapts the number of episodes",
    ),
    Renamed(old="orchestrator.pool_size", advice="removed: see serve.pool of a source"),
    Renamed(old="orchestrator.use_token_client", advice="removed: tokens are always used"),
    Renamed(old="orchestrator.training_mode", advice=_TEACHER),
    Renamed(old="orchestrator.teacher", advice=_TEACHER),
    Renamed(old="orchestrator.teacher_*", advice=_TEACHER),
    Renamed(old="orchestrator.max_async_level", advice="now orchestrator.max_off_policy_steps"),
    Renamed(old="max_async_level", advice="now orchestrator.max_off_policy_steps"),
    Renamed(old="async_level", advice="now orchestrator.max_off_policy_steps"),
    Renamed(old="inference.model", advice=f"{_ENGINE}; the name is inference.vllm.model"),
    Renamed(
        old="inference.parallel",
        advice="now inference.vllm.tensor_parallel_size and data_parallel_size",
    ),
    Renamed(old="*ckpt.resume_step", advice="now [resume] with step; empty = the newest"),
    Renamed(old="*ckpt.keep", advice="now keep_last"),
    Renamed(old="*ckpt.weights_only", advice="removed: see skip_optimizer and its like"),
    Renamed(old="clean_output_dir", advice="now clean, which paddock refuses; remove it"),
    Renamed(old="file_monitor", advice="now [monitors.file]"),
    Renamed(old="prime_monitor", advice="now [monitors.prime]"),
    Renamed(old="*.file_monitor", advice="now monitors.file"),
    Renamed(old="*.prime_monitor", advice="now monitors.prime"),
    Renamed(old="inference_gpu_ids", advice=_GPUS),
    Renamed(old="trainer_gpu_ids", advice=_GPUS),
    Renamed(old="teacher_gpu_ids", advice=_TEACHER),
    Renamed(old="deployment.num_teacher_gpus", advice=_TEACHER),
    Renamed(old="teacher_inference", advice=_TEACHER),
    Renamed(old="trainer.model.experimental", advice="removed: for LoRA see [trainer.model.lora]"),
    Renamed(old="trainer.experimental", advice="removed: for LoRA see [trainer.model.lora]"),
    Renamed(old="experimental", advice="removed: for LoRA see [trainer.model.lora]"),
    Renamed(old="lora", advice="now [trainer.model.lora]"),
    Renamed(
        old="toml_files",
        advice="a file cannot include others: merge them before it is sent",
    ),
    Renamed(old="env", advice=_SOURCE),
    Renamed(old="environment", advice=_SOURCE),
    Renamed(old="sampling", advice="now orchestrator.train.sampling"),
    Renamed(old="learning_rate", advice="now trainer.optim.lr"),
    Renamed(old="lr", advice="now trainer.optim.lr"),
    Renamed(old="batch_size", advice="now orchestrator.batch_size"),
    Renamed(old="group_size", advice="now orchestrator.group_size"),
    Renamed(old="trainer.lr", advice="now trainer.optim.lr"),
    Renamed(old="trainer.max_norm", advice="now trainer.optim.max_norm"),
    Renamed(old="trainer.optim.betas", advice="write betas1 and betas2"),
    Renamed(old="trainer.optim.eps", advice="cannot be set: the optimizer's own is used"),
    Renamed(old="trainer.optim.learning_rate", advice="now lr"),
    Renamed(old="inference.seq_len", advice="now inference.vllm.max_model_len"),
    Renamed(old="inference.max_model_len", advice="now inference.vllm.max_model_len"),
    Renamed(
        old="data",
        advice="this is a table of an SFT config; RL takes data from [[orchestrator.train.source]]",
    ),
    Renamed(old="optim", advice="now [trainer.optim]"),
    Renamed(old="scheduler", advice="now [trainer.scheduler]"),
    Renamed(old="model.seq_len", advice="now seq_len at the top of the file"),
)


def advice_for(path: Loc) -> str:
    """Return what to write instead of a key that no longer exists, "" where nothing is known."""
    dotted = ".".join("*" if isinstance(part, int) else part for part in path)
    for entry in RENAMED:
        if dotted == entry.old or fnmatchcase(dotted, entry.old):
            return entry.advice
    return ""
