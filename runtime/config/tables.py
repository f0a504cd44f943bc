"""Where a config holds environment variables, names of key variables, headers and addresses."""

from collections.abc import Iterator
from dataclasses import dataclass

from runtime.config.algo import OPD, AlgoConfig
from runtime.config.client import ClientOptions, FrozenModel
from runtime.config.inference import DisaggregatedInference
from runtime.config.rl import RLConfig
from runtime.config.schema_walk import Loc
from runtime.config.source import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvTable:
    """One table of environment variables and where it stands."""

    loc: Loc
    values: dict[str, str]


def env_tables(config: RLConfig) -> Iterator[EnvTable]:
    """Yield every table of environment variables that a component starts with."""
    yield EnvTable(loc=("env_vars",), values=config.env_vars)
    yield EnvTable(loc=("trainer", "env_vars"), values=config.trainer.env_vars)
    yield EnvTable(loc=("orchestrator", "env_vars"), values=config.orchestrator.env_vars)
    inference = config.inference
    if inference is None:
        return
    yield EnvTable(loc=("inference", "env_vars"), values=inference.env_vars)
    below = inference.deployment
    if isinstance(below, DisaggregatedInference):
        for key in ("prefill_env_vars", "decode_env_vars"):
            yield EnvTable(loc=("inference", "deployment", key), values=getattr(below, key))


def key_variables(config: RLConfig) -> Iterator[tuple[Loc, str]]:
    """Yield every name of a variable whose value is sent to an endpoint, with its place."""
    client = config.orchestrator.model.client
    base: Loc = ("orchestrator", "model", "client")
    yield (*base, "api_key_var"), client.api_key_var
    for header, name in client.headers_from_env.items():
        yield (*base, "headers_from_env", header), name
    for loc, model in frozen_models(config):
        yield (*loc, "api_key_var"), model.api_key_var
        for header, name in model.headers_from_env.items():
            yield (*loc, "headers_from_env", header), name
    for loc, source in placed_sources(config):
        for index, judge in enumerate(source.env.taskset.task.judges):
            yield (
                (*loc, "env", "taskset", "task", "judges", index, "api_key_var"),
                judge.api_key_var,
            )
        for seat, agent in source.env.seats.items():
            if agent.client is not None:
                yield (*loc, "env", seat, "client", "api_key_var"), agent.client.api_key_var


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderTable:
    """One table of headers as they are sent; `secrets_key` names where a secret belongs instead."""

    loc: Loc
    values: dict[str, str]
    secrets_key: str


def header_tables(config: RLConfig) -> Iterator[HeaderTable]:
    """Yield every table of headers that an endpoint gets."""
    clients: list[tuple[Loc, ClientOptions]] = [
        (("orchestrator", "model", "client"), config.orchestrator.model.client),
        *frozen_models(config),
    ]
    for loc, client in clients:
        yield HeaderTable(
            loc=(*loc, "headers"), values=client.headers, secrets_key="headers_from_env"
        )
    for loc, source in placed_sources(config):
        for index, judge in enumerate(source.env.taskset.task.judges):
            place = (*loc, "env", "taskset", "task", "judges", index, "headers")
            yield HeaderTable(loc=place, values=judge.headers, secrets_key="api_key_var")
        for seat, agent in source.env.seats.items():
            if agent.client is not None:
                place = (*loc, "env", seat, "client", "headers")
                yield HeaderTable(loc=place, values=agent.client.headers, secrets_key="api_key_var")


def urls(config: RLConfig) -> Iterator[tuple[Loc, str]]:
    """Yield every address that a component calls, with its place."""
    for name, component in (("trainer", config.trainer), ("orchestrator", config.orchestrator)):
        if component.heartbeat is not None:
            yield (name, "heartbeat", "url"), component.heartbeat.url
    client = config.orchestrator.model.client
    yield ("orchestrator", "model", "client", "base_url"), client.base_url
    for index, url in enumerate(client.admin_base_url or []):
        yield ("orchestrator", "model", "client", "admin_base_url", index), url
    for loc, model in frozen_models(config):
        yield (*loc, "base_url"), model.base_url
    for loc, source in placed_sources(config):
        if source.serve.address is not None:
            yield (*loc, "serve", "address"), source.serve.address
        for index, judge in enumerate(source.env.taskset.task.judges):
            yield (*loc, "env", "taskset", "task", "judges", index, "base_url"), judge.base_url
        for seat, agent in source.env.seats.items():
            if agent.client is not None:
                yield (*loc, "env", seat, "client", "base_url"), agent.client.base_url


def frozen_models(config: RLConfig) -> Iterator[tuple[Loc, FrozenModel]]:
    """Yield every model that is served elsewhere, with its place."""
    algos: list[tuple[Loc, AlgoConfig]] = [(("orchestrator", "algo"), config.orchestrator.algo)]
    for index, source in enumerate(config.orchestrator.train.source):
        if source.algo is not None:
            algos.append((("orchestrator", "train", "source", index, "algo"), source.algo))
    for loc, algo in algos:
        if isinstance(algo.sampling.source, FrozenModel):
            yield (*loc, "sampling", "source"), algo.sampling.source
        if isinstance(algo, OPD):
            yield (*loc, "teacher"), algo.teacher


def placed_sources(config: RLConfig) -> Iterator[tuple[Loc, Source]]:
    """Yield every source with its place, training first."""
    counts = {"train": 0, "eval": 0}
    for split, source in config.orchestrator.sources:
        yield ("orchestrator", split, "source", counts[split]), source
        counts[split] += 1
