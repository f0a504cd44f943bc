"""Group advantages as prime-rl's GRPO: reward minus the mean reward of the group, no std."""

from collections.abc import Sequence


def group_advantages(rewards: Sequence[float]) -> list[float]:
    """Return one advantage an episode of a group."""
    if not rewards:
        return []
    centre = sum(rewards) / len(rewards)
    if all(reward == rewards[0] for reward in rewards):
        return [0.0] * len(rewards)  # rounding must not make an advantage out of equal rewards
    return [reward - centre for reward in rewards]
