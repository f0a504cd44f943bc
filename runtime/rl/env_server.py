"""Entry point of one env server: verifiers' own server, unmodified, for one source of the run.

`python -m runtime.rl.env_server @ configs/envs/<split>/<source>.json`. Ends only by a signal.
"""

import logging
import sys
from functools import partial
from typing import Any

from runtime.errors import ConfigError, Problem
from runtime.rl.component_config import read_config
from runtime.rl.console import run_component, set_up_logging
from runtime.rl.garbage import collect_rarely
from runtime.rl.views import EnvServerView, LogView

logger = logging.getLogger(__name__)


def serve(config: EnvServerView) -> None:
    """Serve the environment until a signal ends the process."""
    if config.serve.address is None:
        raise ConfigError([Problem(loc=("serve", "address"), message="no address to listen on")])
    collect_rarely()
    import verifiers.v1 as vf  # 4 s of CPU; a wrong config is told before
    from verifiers.v1.serve import env_config_data, serve_env

    env = vf.resolve_env_config(config.env)
    logger.info("Serving %s at %s", config.env["taskset"]["id"], config.serve.address)
    serve_env(
        **_pool(config),
        address=config.serve.address,
        config_data=env_config_data(env),
        max_concurrent=config.serve.max_concurrent,
        log_setup=partial(_set_up_worker_logging, config.log),
    )


def main() -> int:
    """Read the configuration and serve."""
    config = read_config(sys.argv[1:], EnvServerView)
    set_up_logging(config.log)
    return run_component(partial(serve, config))


def _pool(config: EnvServerView) -> dict[str, Any]:  # Any: keyword arguments of serve_env
    """Return the pool's arguments of serve_env.

    An elastic pool starts with one worker behind a broker and grows with the episodes in flight. On
    one machine, where a second worker takes cores from the first, that worker is the server's own
    process, which spares the broker and a second import of verifiers.
    """
    import verifiers.v1 as vf

    elastic = config.serve.pool.get("type", "elastic") == "elastic"
    pool = _ONE_WORKER if elastic else config.serve.pool
    return dict(vf.pool_serve_kwargs(vf.ServeConfig.model_validate({"pool": pool}).pool))


_ONE_WORKER = {"type": "static", "num_workers": 1}


def _set_up_worker_logging(log: LogView) -> None:
    set_up_logging(log)
    logging.getLogger("verifiers").setLevel(log.level.upper() if log.level != "trace" else "DEBUG")


if __name__ == "__main__":
    sys.exit(main())
