"""Figures that join an arm's own after it was measured."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.results import Results
from drift_runs.protocol.load import load_protocol
from drift_runs.schema import CONTEXTS
from tests.conftest import copy_tiny

FLIPS = {"one": 0.1, "two": 0.2, "three": 0.3}
INVALID = {"one": 0.0, "two": 0.1, "three": 0.2}


def figure(arm: str, spec: str, statistic: str, value: float) -> Figure:
    return Figure(
        arm=arm, spec=spec, statistic=statistic, value=value, n=10, scope_kind="all", scope="all", outliers="with"
    )


def test_a_constrained_decode_of_an_arm_has_no_say_in_the_arms_order(tmp_path: Path) -> None:
    results = Results(load_protocol(copy_tiny(tmp_path)).protocol)
    for arm, flips in FLIPS.items():
        own = figures_table([figure(arm, "flip", "rate", flips)])
        results.keep_without_positions(CONTEXTS.empty_table(), own, arm=arm, kind="candidate", against="")
        # A grammar mends what the arm breaks, so that its own figure would turn the order round.
        written = [
            figure(arm, "branches", "invalid", INVALID[arm]),
            figure(f"{arm}-grammar", "branches", "invalid", 1 - INVALID[arm]),
        ]
        results.add_figures(arm, figures_table(written))
    rows = _agreement(results.across().agreement)
    assert rows["flip/rate", "branches/invalid"] == 1.0


def _agreement(table: pa.Table) -> dict[tuple[str, str], float]:
    return {(row["left"], row["right"]): row["tau"] for row in table.to_pylist() if row["outliers"] == "with"}
