"""Rules about batches, sources and algorithms."""

from collections.abc import Iterator, Sequence

from runtime.config.algo import OPD, OPSD, SFT, AlgoConfig, Echo
from runtime.config.curriculum import DifficultyPoolSampler
from runtime.config.renderer_models import RENDERER_MODELS
from runtime.config.rl import RLConfig
from runtime.config.rules.rule import at, broken, rule
from runtime.config.schema_walk import Loc
from runtime.config.source import Source
from runtime.config.tables import placed_sources
from runtime.errors import Problem

MAX_PORT = 65535
_BATCH = "orchestrator.batch_size"
_TRAIN = "orchestrator.train.source"
_EVAL = "orchestrator.eval.source"


@rule("orchestrator.batch_size", "orchestrator.token_batch_size", "orchestrator.group_size")
def batch_is_whole_groups(config: RLConfig) -> Iterator[Problem]:
    """One batch size, made of whole groups."""
    orchestrator = config.orchestrator
    group, batch = orchestrator.group_size, orchestrator.batch_size
    if batch is not None and orchestrator.token_batch_size is not None:
        yield broken(_BATCH, "batch_size and token_batch_size are both set", fix="keep one")
        return
    if batch is None and orchestrator.token_batch_size is None:
        batch = 128
    if batch is not None and batch % group:
        yield broken(
            "orchestrator.group_size",
            f"group_size {group} does not divide orchestrator.batch_size {batch}",
            fix=f"use batch_size {batch // group * group or group}, or a divisor as group_size",
        )


@rule("orchestrator.concurrency", "orchestrator.group_size")
def concurrency_holds_a_group(config: RLConfig) -> Iterator[Problem]:
    """The bounds of concurrency are in order and hold a group."""
    bounds, group = config.orchestrator.concurrency, config.orchestrator.group_size
    loc = "orchestrator.concurrency"
    for key in ("max_inflight", "initial_inflight"):
        value = getattr(bounds, key)
        if value is not None and value < group:
            yield broken(
                f"{loc}.{key}",
                f"{key} {value} is under group_size {group}: no group could ever finish",
                fix=f"use at least {group}",
            )
    if bounds.max_inflight is None:
        return
    for key in ("initial_inflight", "min_inflight"):
        value = getattr(bounds, key)
        if value is not None and value > bounds.max_inflight:
            yield broken(
                f"{loc}.{key}", f"{key} {value} is over max_inflight {bounds.max_inflight}"
            )


@rule("orchestrator.train", "trainer.data")
def there_is_something_to_train_on(config: RLConfig) -> Iterator[Problem]:
    """Without a source and without fake data a run holds GPUs and does nothing."""
    if not config.orchestrator.train.source and config.trainer.data.fake is None:
        yield broken(
            _TRAIN,
            "no training source: the run would hold GPUs and do nothing",
            fix="add [[orchestrator.train.source]] with env.taskset.id",
        )


@rule("orchestrator.eval")
def evals_have_a_source(config: RLConfig) -> Iterator[Problem]:
    """`[orchestrator.eval]` without a source is a mistake."""
    if config.orchestrator.eval is not None and not config.orchestrator.eval.source:
        yield broken(
            "orchestrator.eval",
            "[orchestrator.eval] has no source",
            fix="add [[orchestrator.eval.source]] with env.taskset.id, or remove the table",
        )


@rule("orchestrator.train.source", "orchestrator.eval.source")
def sources_are_named_apart(config: RLConfig) -> Iterator[Problem]:
    """Every source has an environment, and a name of its own within training or eval."""
    yield from _named_apart(config.orchestrator.train.source, _TRAIN)
    if config.orchestrator.eval is not None:
        yield from _named_apart(config.orchestrator.eval.source, _EVAL)


def _named_apart(sources: Sequence[Source], where: str) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, source in enumerate(sources):
        loc = at(where, index)
        name = source.resolved_name
        if not source.env_id:
            written = ", ".join(source.env.taskset.model_extra or {})
            yield broken(
                loc,
                "no taskset" + (f" id, env.taskset has only: {written[:60]}" if written else ""),
                fix='set env.taskset.id = "..."',
            )
            continue
        if name == "agg":
            yield broken((*loc, "name"), 'the name "agg" is taken by the sum over all sources')
        if name in seen:
            yield broken(
                (*loc, "name"),
                f'two sources of {where} are called "{name}"'
                + ("" if source.name else ", the name of an unnamed source being its taskset's id"),
                fix="give each a name of its own",
            )
        seen[name] = index


@rule("orchestrator.env_server_base_port", "orchestrator.train.source", "orchestrator.eval.source")
def env_servers_have_ports(config: RLConfig) -> Iterator[Problem]:
    """Every env server has a port of its own, counted from the base."""
    base, num_sources = config.orchestrator.env_server_base_port, len(config.orchestrator.sources)
    if num_sources and base + num_sources - 1 > MAX_PORT:
        yield broken(
            "orchestrator.env_server_base_port",
            f"{num_sources} env servers from port {base} on go over {MAX_PORT}",
            fix=f"use at most {MAX_PORT + 1 - num_sources}",
        )


@rule("orchestrator.train.source", "orchestrator.eval.source")
def harnesses_exist(config: RLConfig) -> Iterator[Problem]:
    """The one harness that was renamed."""
    for loc, source in placed_sources(config):
        for seat, agent in source.env.seats.items():
            if agent.harness is not None and agent.harness.id == "default":
                yield broken(
                    (*loc, "env", seat, "harness", "id"),
                    'the harness "default" was renamed to "bash"',
                    fix='write id = "bash"',
                )


@rule("orchestrator.algo", "orchestrator.train.source")
def algorithms_have_what_they_need(config: RLConfig) -> Iterator[Problem]:
    """Who samples fits the algorithm."""
    yield from _algo_problems(config.orchestrator.algo, at("orchestrator.algo"))
    for index, source in enumerate(config.orchestrator.train.source):
        if source.algo is not None:
            yield from _algo_problems(source.algo, at(_TRAIN, index, "algo"))


def _algo_problems(algo: AlgoConfig, loc: Loc) -> Iterator[Problem]:
    frozen = algo.sampling.source != "policy"
    if isinstance(algo, SFT) and not frozen:
        yield broken(
            (*loc, "sampling", "source"),
            "sft learns from a frozen model's rollouts, the policy's own teach nothing",
            fix="set sampling.source to a table with name and base_url",
        )
    if not isinstance(algo, SFT) and frozen:
        what = "the teacher belongs to algo.teacher" if isinstance(algo, OPD | OPSD) else "use sft"
        yield broken(
            (*loc, "sampling", "source"),
            f'{algo.type} needs the policy\'s own probabilities, sampling.source must be "policy"',
            fix=what,
        )
    if isinstance(algo, Echo):
        roles = algo.roles
        if not any((roles.system, roles.user, roles.assistant, roles.tool)):
            yield broken((*loc, "roles"), "echo needs at least one role", fix="add [roles.tool]")


@rule("orchestrator.train.source")
def curricula_can_draw(config: RLConfig) -> Iterator[Problem]:
    """Pools are apart and one of them is drawn from; a gate's range is a range."""
    for index, source in enumerate(config.orchestrator.train.source):
        if source.curriculum is None:
            continue
        loc = at(_TRAIN, index, "curriculum")
        sampler = source.curriculum.sampler
        if isinstance(sampler, DifficultyPoolSampler):
            thresholds = [pool.threshold for pool in sampler.pools.values()]
            if len(set(thresholds)) < len(thresholds):
                yield broken((*loc, "sampler", "pools"), "two pools share a threshold")
            if not any(pool.weight > 0 for pool in sampler.pools.values()):
                yield broken((*loc, "sampler", "pools"), "no pool has a weight above 0")
        for name, gate in source.curriculum.gates.items():
            if gate.reject_min > gate.reject_max:
                yield broken(
                    (*loc, "gates", name),
                    f"reject_min {gate.reject_min} is over reject_max {gate.reject_max}",
                )


@rule("orchestrator.renderer", "orchestrator.model.name", "orchestrator.tokenizer", "model.name")
def auto_renderer_knows_the_model(config: RLConfig) -> Iterator[Problem]:
    """A model that the renderer library does not list must name its renderer."""
    orchestrator = config.orchestrator
    model = orchestrator.tokenizer.name or orchestrator.model.name
    if orchestrator.renderer.name == "auto" and model not in RENDERER_MODELS:
        yield broken(
            "orchestrator.renderer",
            f'no renderer is known for "{model}"',
            fix="set [orchestrator.renderer] name to that of its family (qwen3, prime-qwen3, "
            'llama-3, ...), or to "default"',
        )


RULES = (
    batch_is_whole_groups,
    concurrency_holds_a_group,
    there_is_something_to_train_on,
    evals_have_a_source,
    sources_are_named_apart,
    env_servers_have_ports,
    harnesses_exist,
    algorithms_have_what_they_need,
    curricula_can_draw,
    auto_renderer_knows_the_model,
)
