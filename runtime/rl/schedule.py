"""Learning-rate schedules as functions of the step: a resumed run needs no scheduler state."""

import math

from runtime.rl.views import SchedulerView


def learning_rate(
    step: int, base_lr: float, scheduler: SchedulerView, max_steps: int | None
) -> float:
    """Return the rate of a step (from 1).

    constant: base_lr. linear: up over warmup_steps, base_lr, then down to min_lr over the last
    decay_steps of max_steps. cosine: up over warmup_steps, then half a cosine to min_lr at
    max_steps.
    """
    if scheduler.type == "constant":
        return base_lr
    if step <= scheduler.warmup_steps:
        return base_lr * step / scheduler.warmup_steps
    if max_steps is None:
        return base_lr
    if scheduler.type == "linear":
        left = max_steps - step
        share = min(1.0, max(0.0, left / scheduler.decay_steps)) if scheduler.decay_steps else 1.0
        return scheduler.min_lr + (base_lr - scheduler.min_lr) * share
    span = max(1, max_steps - scheduler.warmup_steps)
    done = min(1.0, (step - scheduler.warmup_steps) / span)
    return scheduler.min_lr + (base_lr - scheduler.min_lr) * 0.5 * (1 + math.cos(math.pi * done))
