"""Sources: the environments of a run, their tasks, and the clients of their servers.

The orchestrator owns the data: it loads each taskset and ships the tasks; servers never load any.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.errors import ConfigError, EngineError, Problem
from runtime.rl.views import OrchestratorView, SourceView

if TYPE_CHECKING:
    from verifiers.v1 import SamplingConfig, Task, Taskset
    from verifiers.v1.configs.client import ClientConfig
    from verifiers.v1.serve import EnvClient

TaskData = dict[str, Any]  # Any: a task as JSON, defined by its environment
_SEED = 0


@dataclass(kw_only=True, slots=True)
class Source:
    """One environment: how to draw its tasks and reach its server."""

    config: SourceView
    client: "EnvClient"
    taskset: "Taskset"
    group_size: int
    tasks: Iterator[TaskData]
    num_drawn: int = 0
    heard_at: float = 0.0
    """When the server last sent an episode, in the event loop's time."""

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self.config.name

    @property
    def weight(self) -> float:
        """Return the source's share of the groups, relative to the others'."""
        return 1.0 if self.config.ratio is None else self.config.ratio

    def draw(self) -> TaskData:
        """Return the next task."""
        self.num_drawn += 1
        return next(self.tasks)

    def sampling(self, **extra: str) -> "SamplingConfig":
        """Return the source's sampling; unset fields are left out."""
        import verifiers.v1 as vf

        wanted = self.config.sampling.model_dump(exclude_none=True)
        body = {**wanted.pop("extra_body", {}), **extra}
        return vf.SamplingConfig.model_validate({"top_p": 1.0, **wanted, "extra_body": body})


def open_source(config: SourceView, *, group_size: int, num_drawn: int = 0) -> Source:
    """Load a source's taskset and connect to its server; skip the tasks drawn before a resume."""
    import verifiers.v1 as vf
    from verifiers.v1.serve import EnvClient

    if config.serve.address is None:
        where = Problem(loc=("source", config.name, "serve", "address"), message="no address")
        raise ConfigError([where], source="orchestrator.json")
    taskset = vf.load_taskset(vf.resolve_env_config(config.env).taskset)
    tasks = itertools.islice(_endless(taskset, config.name), num_drawn, None)
    return Source(
        config=config,
        client=EnvClient(config.serve.address),
        taskset=taskset,
        group_size=config.group_size or group_size,
        tasks=tasks,
        num_drawn=num_drawn,
    )


def fixed_tasks(source: Source, num_examples: int) -> list[TaskData]:
    """Return the first tasks of a source in their own order, -1 for all: what is evaluated."""
    limit = None if num_examples < 0 else num_examples
    if limit is None and not source.taskset.bounded:
        raise EngineError(f"source {source.name} has no end of tasks: set num_examples")
    return [_dump(task) for task in itertools.islice(iter(source.taskset), limit)]


def train_client(config: OrchestratorView, base_url: str) -> "ClientConfig":
    """Return the model client of training episodes: tokens in, tokens out."""
    from verifiers.v1.configs.client import TrainClientConfig

    client = config.model.client
    return TrainClientConfig.model_validate(
        {
            "base_url": base_url,
            "api_key_var": client.api_key_var,
            "headers": client.headers,
            "renderer": config.renderer or None,
            "renderer_model_name": config.tokenizer.name or config.model.name,
        }
    )


def eval_client(config: OrchestratorView, base_url: str) -> "ClientConfig":
    """Return the model client of evaluation episodes: chat completions."""
    from verifiers.v1.configs.client import EvalClientConfig

    client = config.model.client
    return EvalClientConfig(
        base_url=base_url, api_key_var=client.api_key_var, headers=client.headers
    )


def _endless(taskset: "Taskset", name: str) -> Iterator[TaskData]:
    """Yield the tasks, shuffled anew each epoch where the taskset has an end."""
    if not taskset.bounded:
        yield from (_dump(task) for task in taskset)
        return
    tasks = [_dump(task) for task in taskset]
    if not tasks:
        raise EngineError(f"source {name} has no tasks")
    for epoch in itertools.count():
        order = random.Random(f"{_SEED}/{name}/{epoch}").sample(range(len(tasks)), len(tasks))
        yield from (tasks[place] for place in order)


def _dump(task: "Task") -> TaskData:
    return task.data.model_dump(mode="json")
