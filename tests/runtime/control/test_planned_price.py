"""The price of a run's hour, as answers and pages have it."""

from dataclasses import replace
from pathlib import Path

import pytest

from runtime.control.planned_price import planned_usd_per_hour
from runtime.control.wire.dispatch import DispatchedRun
from tests.runtime.control.reading.run_files import stored_run


@pytest.mark.parametrize(
    ("plan", "price"),
    [
        ('{"price_usd_per_hour": 5, "of": "another version"}', 5.0),
        ('{"price_usd_per_hour": null}', None),
        ('{"price_usd_per_hour": "5"}', None),
        ('{"price_usd_per_hour": true}', None),
        ("[]", None),
        ("{torn", None),
        ("", None),
    ],
)
def test_a_price_is_read_off_any_plan(tmp_path: Path, plan: str, price: float | None) -> None:
    run = replace(stored_run(tmp_path), plan_json=plan)

    assert planned_usd_per_hour(run) == price
    assert DispatchedRun.of(run).estimated_cost_per_hour == price
