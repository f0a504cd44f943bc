"""Every platform number and every reserved name, each with its source; values only, no logic.

Read by admission, stack settings and the secret rules. "Hosted RL" is the documentation of the
hosted service that paddock is the open counterpart of, read 2026-11.
"""

MAX_GPUS_PER_RUN = 64
"""Trainer and inference GPUs of all pods. Source: Hosted RL, "GPUs per run"."""

MAX_QUEUED_RUNS_PER_USER = 10
"""Source: Hosted RL, "Queued runs per user"."""

MAX_SECRETS_PER_RUN = 32
"""Source: Hosted RL, "Entries per run"."""

MAX_SECRET_NAME_CHARS = 128
"""Source: Hosted RL, "Name"."""

MAX_SECRET_VALUE_BYTES = 32 * 1024
"""Source: Hosted RL, "Value"; far under Linux' MAX_ARG_STRLEN of 131,072 bytes for one variable."""

MAX_SECRETS_TOTAL_BYTES = 256 * 1024
"""Source: Hosted RL, "Total"; a Kubernetes Secret ends at 1 MiB."""

MAX_RUN_NAME_CHARS = 256
"""Of a name that is shown; what tables, pages and W&B still show whole."""

MAX_CONFIG_BYTES = 1_000_000
"""A ConfigMap ends at 1 MiB, and the run's ConfigMap carries three more files."""

GATED_MODEL_PREFIXES = (
    "meta-llama/",
    "google/gemma-2",
    "google/gemma-3",
    "CohereLabs/c4ai-",
)
"""Models that the hub gives out only with a token of somebody who accepted their licence."""

MAX_IMAGE_TAG_CHARS = 128
"""Source: the OCI distribution specification."""

DEFAULT_IMAGE_TAG = "main"
"""Source: Hosted RL, "prime-rl image build"."""

HEARTBEAT_INTERVAL_S = 10.0
"""How often a wrapper renews its status file (docs/design.md, launch wrapper)."""

HEARTBEAT_STALE_S = 60.0
"""A peer whose heartbeat is older than this counts as dead."""

STOP_GRACE_S = 10.0
"""Seconds between SIGTERM and SIGKILL for a component on the local target."""

TRAINER_GRACE_S = 60.0
"""How long the trainer may go on after the orchestrator's end, for its last checkpoint."""

END_MARK = "Orchestrator finished."
"""The line by which the orchestrator says that it ended well. Source: prime-rl 559b447."""

LAST_LOG_LINES = 50
"""How many log lines a failure keeps: what a terminal shows at once."""

MAX_KEPT_LINE_CHARS = 2_000
"""Length of each of them; a record is read whole, by everybody who looks at the run."""

RESERVED_SECRET_NAMES = frozenset(
    {
        "PATH",
        "HOME",
        "IFS",
        "SHELL",
        "USER",
        "TMPDIR",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "CUDA_VISIBLE_DEVICES",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "JOB_COMPLETION_INDEX",
        "PRIME_RL_REF",
        "PRIME_RL_REPO",
        "VERIFIERS_VERSION",
        "WANDB_RUN_ID",
        "NEVER_CLEAN",
        "RUN_ID",
    }
)
"""Names that the launcher, the loader or prime-rl's image entrypoint reads for itself."""

RESERVED_SECRET_PREFIXES = (
    "LD_",
    "PULUMI_",
    "PADDOCK_",
    "PRL_",
    "WANDB_SHARED_",
    "KUBERNETES_",
    "TORCHELASTIC_",
)
"""Prefixes reserved for the same reason; LD_ would load code into every component."""
