"""The codes of refusals. A code is stable: programs, policies and documents name it."""

from enum import StrEnum


class Code(StrEnum):
    """Every code that admission gives; docs/design.md says what each means."""

    GPU_CAP = "gpu_cap"
    GPU_TYPE = "gpu_type"
    TOO_BIG = "too_big"
    DEPLOYMENT = "deployment"
    INFERENCE = "inference"
    UNPLACED = "unplaced"
    PORTS = "ports"
    IMAGE_TAG = "image_tag"
    MODEL = "model"
    GATED_MODEL = "gated_model"
    VOLUME = "volume"
    STORAGE = "storage"
    TASKSET = "taskset"
    ENDPOINT = "endpoint"
    QUEUED_RUNS = "queued_runs"
    WALLET = "wallet"
    ON_DEMAND = "on_demand"
    RESUME_FROM = "resume_from"
    CAPACITY = "capacity"
