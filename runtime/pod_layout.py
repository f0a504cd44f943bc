"""Where things lie in a run's pods: folders, files of the ConfigMap, container names. Constants.

Paths inside the run directory are `runtime.artifacts`'; here is where it is mounted.
"""

RUN_DIR = "/paddock/run"
"""The run directory: the run volume's claim, by the subPath runs/<runId>."""

OTHER_RUN_DIR = "/paddock/other-run"
"""The directory of the run whose checkpoint a run starts with: of the same claim, read-only, and
in the orchestrator's `prepare` only."""

VOLUME_DIR = "/volume"
"""The whole claim of a volume stack. Source: Hosted RL, "Volume-hosted models"."""

LAUNCH_DIR = "/paddock/launch"
"""The run's ConfigMap: the user's TOML, launch.json, and the programs that start a component."""

MODELS_DIR = "/paddock/models"
"""The claim of the model cache."""

HF_HOME = f"{MODELS_DIR}/hf"
COMPILE_DIR = f"{MODELS_DIR}/compile"
"""Compile caches of torch and vLLM; not where the model cache is read-only."""

PACKAGES_DIR = "/paddock/packages"
"""Environment packages, installed by an init container."""

TERMINATION_LOG = "/dev/termination-log"
"""Where a wrapper leaves its verdict for kubelet, which puts it into the pod's status."""

TOML_FILE = "rl.toml"
LAUNCH_FILE = "launch.json"
PROGRAMS = (
    *("pod_entry.py", "first_checkpoint.py", "resolve.py"),
    *("wrapper.py", "ranks.py", "packages.py"),
)
"""Files of runtime/launch that the ConfigMap carries; standard library only."""

MAIN = "main"
PREPARE = "prepare"
PACKAGES = "packages"
"""Names of the containers: the component, and the init containers before it."""

JOB_INDEX_VARIABLE = "PADDOCK_JOB_INDEX"
"""Environment variable with the number of the pod's Job in its group."""
