"""Published intervals, from the published per-context figures. Skipped where those data are not at hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from drift_runs.measure.intervals import Resampler, cluster_intervals, ratio_intervals

FOLDER = Path(os.environ.get("DRIFT_PUBLISHED_DATA", Path(__file__).parents[3] / "shared" / "data"))
RECEIPTS = FOLDER / "qwen38-exl3"

pytestmark = pytest.mark.skipif(
    not (FOLDER / "expected.json").is_file(), reason="no published data: set DRIFT_PUBLISHED_DATA to their folder"
)

# The publisher drew 10,000 resamples from another random stream, which moves the ends in the third digit.
ENDS = 0.01
EXACT = 1e-12


def contexts(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean KL, scored positions and cluster of each context."""
    rows = json.loads((RECEIPTS / name).read_text())["per_context_all"]
    _, cluster = np.unique([row["source_cluster"] for row in rows], return_inverse=True)
    means = np.array([row["mean_kld"] for row in rows])
    return means, np.array([row["positions_scored"] for row in rows], dtype=float), cluster.astype(np.int32)


def published(key: str) -> dict:
    entries = json.loads((FOLDER / "expected.json").read_text())["contexts"]
    return next(entry for entry in entries if entry["id"] == key)


def test_mean_and_interval_over_842_clusters():
    expected = published("fp8-10M")
    means, positions, cluster = contexts(expected["file"])
    assert len(means) == expected["contexts"] and cluster.max() + 1 == expected["clusters"]
    assert (means * positions).sum() / positions.sum() == pytest.approx(expected["token_mean"], rel=1e-9)
    found = ratio_intervals(
        (means * positions)[:, None], positions[:, None], cluster, expected["clusters"], Resampler(seed=1)
    )
    assert (found.low[0], found.high[0]) == pytest.approx(tuple(expected["cluster_ci95"]), rel=ENDS)


@pytest.mark.parametrize("key", ["hyd-minus-fp8", "nvfp4-minus-fp8"])
def test_paired_difference_and_its_interval(key: str):
    expected = published(key)
    a, positions, cluster = contexts(expected["a"])
    b, _, _ = contexts(expected["b"])
    difference = a - b
    weighted = (difference * positions)[:, None]
    assert weighted.sum() / positions.sum() == pytest.approx(expected["mean_difference"], rel=1e-9)
    assert (difference < 0).sum() == expected["a_lower"] and (difference > 0).sum() == expected["b_lower"]
    found = ratio_intervals(weighted, positions[:, None], cluster, int(cluster.max()) + 1, Resampler(seed=1))
    assert (found.low[0], found.high[0]) == pytest.approx(tuple(expected["ci95"]), rel=ENDS)


def test_both_intervals_and_the_standard_error_from_the_published_seed():
    data = json.loads((FOLDER / "glm53-panel.json").read_text())
    means = np.array([window["mean_kl"] for window in data["windows"]])[:, None]
    positions = np.array([float(window["scored_positions"]) for window in data["windows"]])[:, None]
    expected = data["published"]
    resampler = Resampler(seed=expected["seed"], resamples=expected["resamples"])
    index = np.arange(len(means), dtype=np.int32)
    found = cluster_intervals(means * positions, positions, index, len(means), resampler)
    assert (means * positions).sum() / positions.sum() == pytest.approx(expected["mean"], rel=EXACT)
    assert found.standard_error[0] == pytest.approx(expected["se_clustered_window"], rel=EXACT)
    for bounds, key in ((found.percentile, "ci95_percentile"), (found.bca, "ci95_bca")):
        assert (bounds.low[0], bounds.high[0]) == pytest.approx(tuple(expected[key]), rel=EXACT)
