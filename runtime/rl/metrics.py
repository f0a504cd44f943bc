"""Rows of metrics.jsonl: {step, attempt, time, <metric>: number}, appended by two processes.

| metric | by | meaning |
|---|---|---|
| reward/mean, /std, /min, /max | orchestrator | over the episodes of the step's batch |
| reward/<source>/mean | orchestrator | the same, one source (only with several sources) |
| seq_len/prompt_mean, seq_len/completion_mean, seq_len/total_max | orchestrator | tokens a sample |
| turns/mean, branches/mean | orchestrator | model calls and training samples an episode |
| truncation/mean | orchestrator | share of episodes cut by a length limit |
| error/mean | orchestrator | share of this step's episodes that could not be trained on |
| trainable/mean | orchestrator | share of samples with an advantage other than zero |
| off_policy/mean, off_policy/max | orchestrator | steps from an episode to its training |
| batch/samples, batch/tokens | orchestrator | what was sent to the trainer |
| episodes/s | orchestrator | finished episodes over the step's wall time |
| time/step | both | wall seconds (the trainer's under trainer/) |
| metrics/<name> | orchestrator | mean of an environment's own metric |
| eval/<source>/{reward/mean,avg@k,error/mean,time} | orchestrator | one evaluation |
| loss/mean, loss/entropy, loss/mismatch_kl | trainer | a loss token |
| loss/masked, loss/masked_high, loss/masked_low | trainer | share of tokens that DPPO masks |
| optim/lr, optim/grad_norm | trainer | of this step's update |
| perf/throughput | trainer | tokens a second |
| trainer/time/step, trainer/time/wait | trainer | seconds of work, seconds without a batch |

Non-finite values are dropped. Steps count from 1. Standard library only.
"""

import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path

ATTEMPT_VARIABLE = "PADDOCK_ATTEMPT"
"""Set by the launcher; a process started by hand is at attempt 1."""


def append_row(path: Path, step: int, values: Mapping[str, float]) -> None:
    """Append one row with a single write, so that rows of two writers never mix."""
    finite = {name: value for name, value in values.items() if math.isfinite(value)}
    attempt = int(os.environ.get(ATTEMPT_VARIABLE, "1"))
    line = json.dumps({"step": step, "attempt": attempt, "time": time.time(), **finite}) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def mean(values: list[float]) -> float:
    """Return the mean, or NaN (dropped from rows) of nothing."""
    return sum(values) / len(values) if values else math.nan


def std(values: list[float]) -> float:
    """Return the population standard deviation, or NaN of nothing."""
    centre = mean(values)
    return math.sqrt(mean([(value - centre) ** 2 for value in values])) if values else math.nan
