"""What a user should know about a valid config: what is ignored, stripped, or likely a mistake.

The W&B tables are stripped here: without a key they would end the run at its start.
"""

from collections.abc import Iterable

from runtime.config.algo import GRPO
from runtime.config.notices import Notice
from runtime.config.problems import looks_secret
from runtime.config.rl import RLConfig
from runtime.config.tables import env_tables, placed_sources
from runtime.errors import Problem

WANDB_KEY = "WANDB_API_KEY"
DEFAULT_PORT = 8000


def remarks(
    config: RLConfig, *, secret_names: frozenset[str], infinite: Iterable[str]
) -> list[Notice]:
    """Return the remarks on a config as it was written; strip W&B where its key is not passed."""
    notices = [
        *_ignored(config),
        *_doubtful(config),
        *(
            Notice(code="infinite", path=path, message=f"{path.split('.')[-1]} is infinite")
            for path in infinite
        ),
    ]
    if WANDB_KEY not in secret_names:
        notices += _strip_wandb(config)
    return notices


def _strip_wandb(config: RLConfig) -> list[Notice]:
    tables = (config.monitors, config.trainer.monitors, config.orchestrator.monitors)
    if all(table.wandb is None for table in tables):
        return []
    for table in tables:
        table.wandb = None
    return [
        Notice(
            code="wandb_stripped",
            path="monitors.wandb",
            message=f"stripped: {WANDB_KEY} is not passed; pass it with -e {WANDB_KEY}",
        )
    ]


def _ignored(config: RLConfig) -> list[Notice]:
    found = []
    if config.slurm is not None:
        also = "; slurm.pre_run_command is never run" if config.slurm.pre_run_command else ""
        found.append(("slurm", f"ignored: paddock places the run itself{also}"))
    if "output_dir" in config.model_fields_set:
        found.append(("output_dir", "ignored: the run's files lie in runs/<runId>"))
    if config.run.dir is not None:
        found.append(("run.dir", "ignored: the run's files lie in runs/<runId>"))
    if config.dry_run:
        found.append(("dry_run", "ignored: use `paddock plan`"))
    return [Notice(code="ignored", path=path, message=message) for path, message in found]


def _doubtful(config: RLConfig) -> list[Notice]:
    notices = []
    inference = config.inference
    client = config.orchestrator.model.client
    if inference is None and config.trainer.data.fake is None:
        notices.append(
            Notice(
                code="no_inference",
                path="inference",
                message="no [inference]: paddock starts no engine, the policy must be served at "
                f"orchestrator.model.client.base_url {client.base_url}",
            )
        )
    is_moved = inference is not None and inference.server.port != DEFAULT_PORT
    if is_moved and "base_url" not in client.model_fields_set:
        notices.append(
            Notice(
                code="wired",
                path="inference.server.port",
                message="orchestrator.model.client.base_url follows inference.server.port",
            )
        )
    return notices + _small_groups(config) + _secrets(config) + _unchecked(config)


def _small_groups(config: RLConfig) -> list[Notice]:
    for index, source in enumerate(config.orchestrator.train.source):
        algo = source.algo or config.orchestrator.algo
        own = "group_size" in source.model_fields_set
        group = source.group_size if own else config.orchestrator.group_size
        if group == 1 and isinstance(algo, GRPO):
            where = f"orchestrator.train.source[{index}]" if own else "orchestrator"
            return [
                Notice(
                    code="group_of_one",
                    path=f"{where}.group_size",
                    message="group_size 1 with grpo: all advantages are zero, nothing is learnt",
                )
            ]
    return []


def _unchecked(config: RLConfig) -> list[Notice]:
    return [
        Notice(
            code="unchecked",
            path=Problem(loc=(*loc, "env", key), message="").path,
            message="not checked: it belongs to the environment's package",
        )
        for loc, source in placed_sources(config)
        for key in source.env.model_extra or {}
        if key not in source.env.seats
    ]


def _secrets(config: RLConfig) -> list[Notice]:
    notices = []
    for table in env_tables(config):
        for name, value in table.values.items():
            if looks_secret((name,), value):
                path = Problem(loc=(*table.loc, name), message="").path
                notices.append(
                    Notice(
                        code="secret_in_file",
                        path=path,
                        message=f"looks like a secret; the file is stored: pass it with -e {name}",
                    )
                )
    return notices
