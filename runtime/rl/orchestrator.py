"""Entry point of the orchestrator: episodes in flight, batches to the trainer, new weights out.

`python -m runtime.rl.orchestrator @ configs/orchestrator.json`. Ends after max_steps with the line
`Orchestrator finished.`; fails, naming the component, when an env server or an engine is gone.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Coroutine

from runtime.artifacts import RunDirectory
from runtime.errors import EngineError
from runtime.rl.component_config import read_config
from runtime.rl.console import SUCCESS, run_component, set_up_logging
from runtime.rl.garbage import collect_rarely
from runtime.rl.policy import Policy
from runtime.rl.progress import read_num_drawn
from runtime.rl.resume import find_resume
from runtime.rl.server_watch import look_at_server, wait_for_server, watch_server
from runtime.rl.sources import Source, open_source
from runtime.rl.step_loop import StepLoop
from runtime.rl.steps import step_of
from runtime.rl.views import OrchestratorView

logger = logging.getLogger(__name__)

_LAST_LOOK_S = 10.0
_SERVER_TIMEOUT_S = 600.0  # prime-rl's limit for an env server to come up


async def orchestrate(config: OrchestratorView) -> None:
    """Run to the last step, or until something that the run needs is gone."""
    if not config.train.source:
        raise EngineError("[[orchestrator.train.source]] is empty: there is nothing to train on")
    _say_what_travels_by_files(config)
    run = RunDirectory(config.output_dir)
    checkpoint = find_resume(run, config.resume)
    first_step = 0 if checkpoint is None else step_of(checkpoint) or 0
    drawn = read_num_drawn(checkpoint)
    train = [
        open_source(source, group_size=config.group_size, num_drawn=drawn.get(source.name, 0))
        for source in config.train.source
    ]
    evaluation = [
        open_source(source, group_size=1) for source in (config.eval.source if config.eval else [])
    ]
    policy = _policy(config, run)
    await _wait_for_peers(config, policy, [*train, *evaluation])
    loop = StepLoop(config, policy, train=train, evaluation=evaluation, first_step=first_step)
    try:
        await _first_of(
            loop.run(),
            policy.follow(),
            policy.watch(),
            *(watch_server(source) for source in [*train, *evaluation]),
        )
    except EngineError:
        await _name_a_dead_peer(policy, [*train, *evaluation])
        raise
    finally:
        await loop.close()
        for source in [*train, *evaluation]:
            await source.client.close()
        await policy.close()
    logger.log(SUCCESS, "Orchestrator finished.")


def _policy(config: OrchestratorView, run: RunDirectory) -> Policy:
    client = config.model.client
    engines = client.admin_base_url or [client.base_url]
    router = client.base_url if client.base_url not in engines else None
    return Policy(engines, run.broadcasts, router_url=router)


def _say_what_travels_by_files(config: OrchestratorView) -> None:
    for name, transport in (
        ("weights", config.weight_broadcast),
        ("rollouts", config.rollout_transport),
    ):
        if transport.type != "filesystem":
            logger.info("Embedded engine: %s go by files, not by %s", name, transport.type)


async def _wait_for_peers(config: OrchestratorView, policy: Policy, sources: list[Source]) -> None:
    await asyncio.gather(
        policy.wait_for_engines(config.model.client.wait_for_ready_timeout),
        *(wait_for_server(source, _SERVER_TIMEOUT_S) for source in sources),
    )
    logger.info("Inference and %d env server(s) are ready", len(sources))


async def _name_a_dead_peer(policy: Policy, sources: list[Source]) -> None:
    """Raise EngineError for a peer that is gone, where one is.

    A dead engine's episodes may all have failed before the next look of its watch; that they
    failed is then what the user would read, and not why.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_LOOK_S):
            await policy.look()
            for source in sources:
                await look_at_server(source)


async def _first_of(
    work: Coroutine[None, None, None], *watches: Coroutine[None, None, None]
) -> None:
    """Run the work to its end; a watch that raises ends it."""
    tasks = [asyncio.ensure_future(item) for item in (work, *watches)]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


def main() -> int:
    """Read the configuration and orchestrate."""
    config = read_config(sys.argv[1:], OrchestratorView)
    set_up_logging(config.log)
    collect_rarely()
    return run_component(lambda: asyncio.run(orchestrate(config)))


if __name__ == "__main__":
    sys.exit(main())
