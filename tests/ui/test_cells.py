"""What a cell says beside its number."""

from __future__ import annotations

from dashboard.components.cells import named_share
from drift_runs.measure.figures import Figure


def test_the_share_of_resamples_stands_beside_the_most_that_it_can_be() -> None:
    common = {"arm": "a", "scope_kind": "all", "scope": "all", "outliers": "with", "spec": "kl.full", "n": 300}
    figure = Figure(**common, statistic="worst_range.p95", value=0.1, clusters=2, named="r", named_share=0.5)
    assert named_share(figure) == "50% (at most 75%)", "two clusters: 1 - (1/2)^2 of the resamples draw a given one"
