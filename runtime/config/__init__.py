"""prime-rl's RL config: read, checked, resolved; free of torch, Pulumi and what a config names.

`load_config` is the way in, for the CLI, the Pulumi program and the control plane alike;
`load_stored_config` reads again what came in before.
"""

from runtime.config.block import MIRRORED_REVISION
from runtime.config.deployment import MultiNodeDeployment, SingleNodeDeployment
from runtime.config.dispatch import DispatchFlags, DispatchKeys
from runtime.config.inference import InferenceConfig
from runtime.config.load import (
    LoadedConfig,
    load_config,
    load_stored_config,
    read_config_bytes,
    read_config_file,
)
from runtime.config.notices import Notice
from runtime.config.orchestrator import OrchestratorConfig
from runtime.config.rl import RLConfig
from runtime.config.source import EvalSource, Source, TrainSource
from runtime.config.trainer import TrainerConfig

__all__ = [
    "MIRRORED_REVISION",
    "DispatchFlags",
    "DispatchKeys",
    "EvalSource",
    "InferenceConfig",
    "LoadedConfig",
    "MultiNodeDeployment",
    "Notice",
    "OrchestratorConfig",
    "RLConfig",
    "SingleNodeDeployment",
    "Source",
    "TrainSource",
    "TrainerConfig",
    "load_config",
    "load_stored_config",
    "read_config_bytes",
    "read_config_file",
]
