"""What the orchestrator says about a step: the console line and the metrics row. Pure."""

from collections.abc import Sequence

from runtime.rl.batch_cut import Batch
from runtime.rl.metrics import mean, std
from runtime.rl.rollouts import Rollout


def step_metrics(batch: Batch, *, step: int, wall_s: float, num_finished: int) -> dict[str, float]:
    """Return the row of a step; names as in `runtime.rl.metrics`."""
    rewards = [rollout.reward for rollout in batch.clean]
    ages = [float(step - 1 - rollout.start_version) for rollout in batch.clean]
    prompts, completions = _lengths(batch.clean)
    num_all = max(1, len(batch.all_rollouts))
    num_clean = max(1, len(batch.clean))
    values = {
        "reward/mean": mean(rewards),
        "reward/std": std(rewards),
        "reward/min": min(rewards, default=0.0),
        "reward/max": max(rewards, default=0.0),
        "seq_len/prompt_mean": mean(prompts),
        "seq_len/completion_mean": mean(completions),
        "seq_len/total_max": max(
            (p + c for p, c in zip(prompts, completions, strict=True)), default=0
        ),
        "turns/mean": mean([float(_turns(rollout)) for rollout in batch.clean]),
        "branches/mean": batch.num_branches / num_clean,
        "truncation/mean": mean([float(_is_truncated(rollout)) for rollout in batch.clean]),
        "error/mean": sum(bool(rollout.error) for rollout in batch.all_rollouts) / num_all,
        "trainable/mean": len(batch.effective) / num_clean,
        "off_policy/mean": mean(ages),
        "off_policy/max": max(ages, default=0.0),
        "batch/samples": float(len(batch.samples)),
        "batch/tokens": float(sum(len(sample.token_ids) for sample in batch.samples)),
        "episodes/s": num_finished / wall_s if wall_s > 0 else 0.0,
        "time/step": wall_s,
    }
    return {**values, **_by_source(batch.clean), **_environment_metrics(batch.clean)}


def step_line(batch: Batch, *, step: int, wall_s: float) -> str:
    """Return the console line of a step, as prime-rl's."""
    values = step_metrics(batch, step=step, wall_s=wall_s, num_finished=0)
    num_clean = len(batch.clean)
    share = 100 * values["trainable/mean"]
    return (
        f"Step {step} | {wall_s:.2f}s | Reward {values['reward/mean']:.4f}"
        f" | Trainable {len(batch.effective)}/{num_clean} ({share:.1f}%)"
        f" | Turns {values['turns/mean']:.1f} | Branches {values['branches/mean']:.1f}"
        f" | Max Off-Policy {values['off_policy/max']:.0f}"
        f" | Error {100 * values['error/mean']:.1f}% | Cancelled {batch.num_cancelled}"
        f" | Truncation {100 * values['truncation/mean']:.1f}%"
    )


def source_lines(rollouts: Sequence[Rollout]) -> list[str]:
    """Return one line a source, none where there is only one."""
    means = _by_source(rollouts)
    return [f"  {name.split('/')[1]} | Reward {value:.4f}" for name, value in means.items()]


def _by_source(rollouts: Sequence[Rollout]) -> dict[str, float]:
    names = sorted({rollout.source for rollout in rollouts})
    if len(names) < 2:
        return {}
    return {
        f"reward/{name}/mean": mean([item.reward for item in rollouts if item.source == name])
        for name in names
    }


def _environment_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for rollout in rollouts:
        for name, value in (rollout.trace.metrics if rollout.trace is not None else {}).items():
            if value is not None:
                found.setdefault(name, []).append(float(value))
    return {f"metrics/{name}": mean(values) for name, values in found.items()}


def _lengths(rollouts: Sequence[Rollout]) -> tuple[list[float], list[float]]:
    traces = [rollout.trace for rollout in rollouts if rollout.trace is not None]
    return (
        [float(trace.num_input_tokens) for trace in traces],
        [float(trace.num_output_tokens) for trace in traces],
    )


def _turns(rollout: Rollout) -> int:
    return rollout.trace.num_turns if rollout.trace is not None else 0


def _is_truncated(rollout: Rollout) -> bool:
    return rollout.trace is not None and rollout.trace.is_truncated
