"""Figures over the launches of one arm."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.launches import launch_figures


def launch(value: float | None, *, state: str = "firm", n: int = 500, **fields: str):
    place = {"scope_kind": "all", "scope": "all", "outliers": "with", "spec": "kl.full", "statistic": "mean", **fields}
    return figures_table(
        [
            Figure(
                arm="q4",
                value=value,
                n=n,
                excluded=1,
                beyond=25,
                state=state if value is not None else "withheld",
                **place,
            )
        ]
    )


def values(tables) -> dict[str, float | None]:
    return {figure.statistic: figure.value for figure in launch_figures(tables, arm="q4")}


def test_mean_ends_and_difference():
    found = launch_figures([launch(0.01), launch(0.03, n=498), launch(0.02)], arm="q4")
    assert {figure.statistic: figure.value for figure in found} == {
        "mean.launches_mean": pytest.approx(0.02),
        "mean.launches_min": 0.01,
        "mean.launches_max": 0.03,
        "mean.launches_difference": pytest.approx(0.02),
    }
    assert {(figure.n, figure.excluded, figure.beyond, figure.reason, figure.state) for figure in found} == {
        (498, 1, 25, "3 launches", "firm")
    }
    assert figures_table(found).num_rows == 4


def test_one_launch_and_none_give_nothing():
    assert launch_figures([launch(0.01)], arm="q4") == [] and launch_figures([], arm="q4") == []
    assert launch_figures([figures_table([]), figures_table([])], arm="q4") == []


@pytest.mark.parametrize("second", [launch(None), launch(float("nan")), figures_table([])])
def test_a_launch_without_the_value_withholds_it(second):
    found = launch_figures([launch(0.01), second], arm="q4")
    assert {(figure.value, figure.state, figure.reason) for figure in found} == {
        (None, "withheld", "2 launches, 1 without a value")
    }


def test_an_indicative_quantile_stays_indicative():
    found = launch_figures([launch(0.1, statistic="p99"), launch(0.2, statistic="p99", state="indicative")], arm="q4")
    assert {figure.state for figure in found} == {"indicative"}
    assert found[0].statistic == "p99.launches_mean"


@pytest.mark.parametrize(
    "fields",
    [
        {"scope_kind": "window", "scope": "w"},
        {"statistic": "max"},
        {"statistic": "worst_range.p95"},
        {"spec": "dnll"},
        {"spec": "flip", "statistic": "count"},
    ],
)
def test_other_figures_are_not_given(fields: dict[str, str]):
    assert launch_figures([launch(1.0, **fields), launch(2.0, **fields)], arm="q4") == []


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": "flip", "statistic": "rate"},
        {"spec": "kl.topk-shared@20", "statistic": "p99.9"},
        {"scope_kind": "panel", "scope": "A", "outliers": "without"},
    ],
)
def test_of_every_choice_and_panel(fields: dict[str, str]):
    found = launch_figures([launch(1.0, **fields), launch(2.0, **fields)], arm="q4")
    assert len(found) == 4
    assert all(
        getattr(figure, name) == value for figure in found for name, value in fields.items() if name != "statistic"
    )


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=6), st.randoms())
def test_order_does_not_matter_and_the_mean_lies_inside(found: list[float], random):
    plain = values([launch(value) for value in found])
    random.shuffle(found)
    assert values([launch(value) for value in found]) == plain
    assert plain["mean.launches_min"] <= plain["mean.launches_mean"] <= plain["mean.launches_max"]
    assert plain["mean.launches_mean"] == pytest.approx(statistics.fmean(found))
    same = values([launch(found[0])] * 3)
    assert same["mean.launches_difference"] == 0 and same["mean.launches_mean"] == found[0]
