"""Rows of the charts by arm: the floor's band stands only where it is of the arm's own positions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dashboard.figures import ANSWERS
from drift_runs.measure.figures import Figure
from drift_runs.report.arm_rows import chart_rows


def share(arm: str, n: int, **more: object) -> Figure:
    return Figure(
        arm=arm,
        scope_kind="all",
        scope="all",
        outliers="with",
        spec=ANSWERS.spec,
        statistic=ANSWERS.statistic,
        value=0.9,
        n=n,
        low=0.8,
        high=0.95,
        **more,
    )


@pytest.mark.parametrize(("judged_by_floor", "band"), [(60, (0.8, 0.95)), (68, (None, None))])
def test_a_floor_of_other_answers_has_no_band(judged_by_floor: int, band: tuple[float | None, float | None]) -> None:
    figures = {"q4_0": share("q4_0", 60, floor="launch", floor_value=0.97), "launch": share("launch", judged_by_floor)}
    page = SimpleNamespace(sets=("with",), figure=lambda arm, column, outliers: figures.get(arm))
    arm = SimpleNamespace(arm="q4_0", role="candidate")
    (row,) = chart_rows(page, ANSWERS, [arm]).to_pylist()
    assert (row["floor_low"], row["floor_high"]) == band
    assert (row["floor_value"], row["low"], row["high"]) == (0.97, 0.8, 0.95)
