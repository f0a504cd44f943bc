"""Rules about values that components hold separately and must hold alike."""

from collections.abc import Iterator

from runtime.checkpoints import step_of
from runtime.config.rl import RLConfig
from runtime.config.rules.rule import broken, rule
from runtime.errors import Problem


@rule("trainer.max_steps", "orchestrator.max_steps", "max_steps")
def max_steps_agree(config: RLConfig) -> Iterator[Problem]:
    """Both sides end at the same step."""
    trainer, orchestrator = config.trainer.max_steps, config.orchestrator.max_steps
    if trainer != orchestrator:
        yield broken(
            "trainer.max_steps",
            f"trainer.max_steps {trainer} and orchestrator.max_steps {orchestrator} disagree",
            fix="set max_steps at the top of the file",
        )


@rule("trainer.model.seq_len", "orchestrator.seq_len", "seq_len")
def sequences_fit_the_trainer(config: RLConfig) -> Iterator[Problem]:
    """The trainer takes what the orchestrator makes."""
    trainer, orchestrator = config.trainer.model.seq_len, config.orchestrator.seq_len
    if trainer < orchestrator:
        yield broken(
            "trainer.model.seq_len",
            f"trainer.model.seq_len {trainer} is under orchestrator.seq_len {orchestrator}",
            fix="set seq_len at the top of the file",
        )


@rule("trainer.ckpt", "orchestrator.ckpt", "ckpt")
def checkpoints_agree(config: RLConfig) -> Iterator[Problem]:
    """A checkpoint has both halves."""
    trainer, orchestrator = config.trainer.ckpt, config.orchestrator.ckpt
    if (trainer is None) != (orchestrator is None):
        alone = "orchestrator.ckpt" if trainer is None else "trainer.ckpt"
        yield broken(alone, f"{alone} alone makes half a checkpoint", fix="write [ckpt]")
        return
    if trainer and orchestrator and trainer.interval != orchestrator.interval:
        yield broken(
            "trainer.ckpt.interval",
            f"trainer.ckpt.interval {trainer.interval} and orchestrator.ckpt.interval "
            f"{orchestrator.interval} disagree",
            fix="set ckpt.interval",
        )


@rule("trainer.resume", "orchestrator.resume", "resume")
def resume_agrees(config: RLConfig) -> Iterator[Problem]:
    """Both sides start from the same step, named in one way."""
    trainer, orchestrator, shared = (
        config.trainer.resume,
        config.orchestrator.resume,
        config.resume,
    )
    if shared is None and trainer != orchestrator:
        yield broken("trainer.resume", "trainer.resume and orchestrator.resume disagree",
                     fix="write [resume] at the top of the file")  # fmt: skip
    for loc, resume in (
        ("resume", shared), ("trainer.resume", trainer), ("orchestrator.resume", orchestrator)
    ):  # fmt: skip
        if resume is None:
            continue
        if resume.step is not None and resume.dir is not None:
            yield broken(loc, "step and dir are both set", fix="keep one")
        if resume.dir is not None and step_of(resume.dir.name) is None:
            yield broken(
                f"{loc}.dir",
                f'"{resume.dir}" is no checkpoint directory',
                fix="name one that ends in step_<N>",
            )


@rule("trainer.monitors.wandb", "orchestrator.monitors.wandb", "monitors")
def wandb_agrees(config: RLConfig) -> Iterator[Problem]:
    """W&B is on for both sides and in one project."""
    trainer, orchestrator = config.trainer.monitors.wandb, config.orchestrator.monitors.wandb
    if (trainer is None) != (orchestrator is None):
        alone = "orchestrator" if trainer is None else "trainer"
        yield broken(
            f"{alone}.monitors.wandb", f"W&B is on for the {alone} only", fix="use [monitors.wandb]"
        )
        return
    if trainer and orchestrator and trainer.project != orchestrator.project:
        yield broken(
            "trainer.monitors.wandb.project",
            f'"{trainer.project}" and orchestrator.monitors.wandb.project '
            f'"{orchestrator.project}" disagree',
            fix="set monitors.wandb.project",
        )


@rule(
    "model.name", "trainer.model.name", "orchestrator.model.name", "inference.vllm.model"
)  # fmt: skip
def models_agree(config: RLConfig) -> Iterator[Problem]:
    """The orchestrator asks for the model that is served."""
    trainer, orchestrator = config.trainer.model.name, config.orchestrator.model.name
    if config.inference is not None and config.inference.vllm.model != orchestrator:
        yield broken(
            "inference.vllm.model",
            f'inference.vllm.model "{config.inference.vllm.model}" is not '
            f'orchestrator.model.name "{orchestrator}"',
            fix="set model.name at the top of the file",
        )
    if config.inference is None and trainer != orchestrator:
        yield broken(
            "trainer.model.name",
            f'trainer.model.name "{trainer}" is not orchestrator.model.name "{orchestrator}"',
            fix="set model.name at the top of the file",
        )
    for loc, name in (
        ("model.name", config.model.name if config.model else trainer),
        ("orchestrator.model.name", orchestrator),
    ):
        if name != name.strip() or any(char.isspace() for char in name) or not name:
            yield broken(loc, f'"{name}" has white space in it or is empty', fix="remove it")
            break


@rule("tokenizer", "trainer.tokenizer", "orchestrator.tokenizer", "inference.vllm.chat_template")
def chat_templates_agree(config: RLConfig) -> Iterator[Problem]:
    """All components render with one template."""
    template = config.trainer.tokenizer.chat_template
    others = {"orchestrator.tokenizer.chat_template": config.orchestrator.tokenizer.chat_template}
    if config.inference is not None:
        others["inference.vllm.chat_template"] = config.inference.vllm.chat_template
    for loc, other in others.items():
        if other != template:
            yield broken(
                loc,
                "chat_template differs from trainer.tokenizer.chat_template",
                fix="set tokenizer.chat_template at the top of the file",
            )


@rule("trainer.rollout_transport", "orchestrator.rollout_transport", "rollout_transport")
def transports_agree(config: RLConfig) -> Iterator[Problem]:
    """Rollouts leave the way they arrive."""
    trainer, orchestrator = config.trainer.rollout_transport, config.orchestrator.rollout_transport
    if trainer.type != orchestrator.type:
        yield broken(
            "trainer.rollout_transport.type",
            f'trainer.rollout_transport.type "{trainer.type}" is not '
            f'orchestrator.rollout_transport.type "{orchestrator.type}"',
            fix="write [rollout_transport] at the top of the file",
        )


@rule("trainer.output_dir", "orchestrator.output_dir", "output_dir", "run")
def output_is_the_run_directory(config: RLConfig) -> Iterator[Problem]:
    """Components write where the run writes."""
    for loc, component in (("trainer", config.trainer), ("orchestrator", config.orchestrator)):
        if "output_dir" in component.model_fields_set:
            run_dir = config.output_dir / (config.run.dir or config.run.name or "")
            if component.output_dir != run_dir:
                yield broken(
                    f"{loc}.output_dir",
                    f'"{component.output_dir}" is not the run directory, which paddock sets',
                    fix="remove it",
                )


RULES = (
    max_steps_agree,
    sequences_fit_the_trainer,
    checkpoints_agree,
    resume_agrees,
    wandb_agrees,
    models_agree,
    chat_templates_agree,
    transports_agree,
    output_is_the_run_directory,
)
