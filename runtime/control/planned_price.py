"""The price of a run's hour as its stored plan has it; pure.

Read off the JSON alone, since a plan of another version has it under the same name.
"""

import json

from runtime.control.values import StoredRun


def planned_usd_per_hour(run: StoredRun) -> float | None:
    """Return the dollars that an hour of all GPUs costs, None where the plan says nothing."""
    try:
        plan = json.loads(run.plan_json or "{}")
    except ValueError:
        return None
    price = plan.get("price_usd_per_hour") if isinstance(plan, dict) else None
    if not isinstance(price, int | float) or isinstance(price, bool):
        return None
    return float(price)
