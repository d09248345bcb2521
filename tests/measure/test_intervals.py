"""The bootstrap against a loop that writes every resample out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.measure.intervals import (
    Resampler,
    block_quantile_replicates,
    block_ratio_replicates,
    cluster_intervals,
    cluster_of,
    clusters_of,
    quantile_intervals,
    quantile_replicates,
    ratio_intervals,
    small_cluster_note,
    standard_errors,
)
from drift_runs.measure.positions import positions_of

LEVELS = np.array([0.5, 0.9, 0.99])


def one_by_one(seed: int, resamples: int, clusters: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, clusters, clusters) for _ in range(resamples)]


def clustered(seed: int, n: int, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    index = np.concatenate([np.arange(clusters), generator.integers(0, clusters, n - clusters)]).astype(np.int32)
    return generator.lognormal(-4, 2, n), index


@pytest.mark.parametrize("clusters", [1, 2, 7, 16, 300])
def test_one_draw_a_resample_in_order(clusters: int):
    resampler = Resampler(seed=3, resamples=100)
    expected = [np.bincount(drawn, minlength=clusters) for drawn in one_by_one(3, 100, clusters)]
    assert np.array_equal(resampler.multiplicities(clusters), expected)


def test_ratio_of_sums_equals_the_loop():
    values, index = clustered(1, 200, 6)
    weights = (values > 0.01).astype(float)
    resampler = Resampler(seed=11, resamples=400)
    found = ratio_intervals((values * weights)[:, None], weights[:, None], index, 6, resampler)
    replicates = []
    for drawn in one_by_one(11, 400, 6):
        top = sum((values * weights)[index == cluster].sum() for cluster in drawn)
        replicates.append(top / sum(weights[index == cluster].sum() for cluster in drawn))
    assert (found.low[0], found.high[0]) == pytest.approx(tuple(np.quantile(replicates, [0.025, 0.975])), rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), clusters=st.integers(2, 6), ties=st.booleans())
def test_quantiles_of_resamples_equal_numpy_on_the_values_written_out(seed, n, clusters, ties):
    values, index = clustered(seed, max(n, clusters), clusters)
    if ties:
        values = np.round(values, 2)
    found = quantile_replicates(values, index, clusters, LEVELS, Resampler(seed=seed, resamples=20))
    for row, drawn in enumerate(one_by_one(seed, 20, clusters)):
        written_out = np.concatenate([values[index == cluster] for cluster in drawn])
        assert found[row] == pytest.approx(np.quantile(written_out, LEVELS), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("n", [5, 16, 17, 40, 250])
def test_circular_blocks_equal_the_positions_written_out(n: int):
    values, _ = clustered(n, n, 1)
    weights = (np.arange(n) % 3 > 0).astype(float)
    resampler = Resampler(seed=2, resamples=30)
    means = block_ratio_replicates(
        np.stack([values, values * weights], axis=1), np.stack([values * 0 + 1, weights], axis=1), resampler
    )
    quantiles = block_quantile_replicates(values, LEVELS, resampler)
    drawn = np.concatenate([starts for _, starts in resampler.block_starts(n)])
    for row, starts in enumerate(drawn):
        at = ((starts[:, None] + np.arange(16)) % n).ravel()[:n]
        assert means[row, 0] == pytest.approx(values[at].mean(), rel=1e-9)
        if weights[at].sum():
            assert means[row, 1] == pytest.approx((values * weights)[at].sum() / weights[at].sum(), rel=1e-9)
        assert quantiles[row] == pytest.approx(np.quantile(values[at], LEVELS), rel=1e-12)


def test_a_constant_has_an_interval_of_no_width():
    values, index = np.full(50, 0.25), clustered(1, 50, 5)[1]
    resampler = Resampler(seed=1, resamples=200)
    found = ratio_intervals(values[:, None], np.ones((50, 1)), index, 5, resampler)
    assert (found.low[0], found.high[0]) == (0.25, 0.25)
    bounds = quantile_intervals(values, index, 5, LEVELS, resampler)
    assert bounds.low.tolist() == bounds.high.tolist() == [0.25] * 3


def test_one_cluster_and_no_values_have_no_interval():
    resampler = Resampler(seed=1, resamples=100)
    values = np.arange(10.0)
    one = np.zeros(10, dtype=np.int32)
    assert np.isnan(ratio_intervals(values[:, None], np.ones((10, 1)), one, 1, resampler).low).all()
    assert np.isnan(quantile_intervals(values, one, 1, LEVELS, resampler).high).all()
    assert np.isnan(quantile_intervals(values[:0], one[:0], 3, LEVELS, resampler).high).all()
    assert np.isnan(ratio_intervals(np.empty((0, 2)), np.empty((0, 2)), one[:0], 3, resampler).low).all()


def test_intervals_cover_the_truth_of_many_clusters_about_as_often_as_they_claim():
    generator = np.random.default_rng(5)
    index = np.repeat(np.arange(40), 10).astype(np.int32)
    inside = 0
    for trial in range(200):
        values = np.repeat(generator.standard_normal(40), 10) + generator.standard_normal(400)
        low, high = ratio_intervals(values[:, None], np.ones((400, 1)), index, 40, Resampler(seed=trial, resamples=200))
        inside += low[0] <= 0 <= high[0]
    assert 176 <= inside <= 198


def test_notes_name_the_number_of_clusters():
    assert small_cluster_note(5, "document") == "5 documents: such intervals cover less than they claim"
    assert small_cluster_note(1, "window") == "1 window: no interval between windows"
    assert small_cluster_note(20, "document") == "" and small_cluster_note(0, "document") == ""


@pytest.mark.parametrize(
    ("unit", "labels"),
    [("document", ("d", "e")), ("window", ("a", "b", "c")), ("prompt", ("streams/d.json", "streams/e.json"))],
)
def test_one_function_says_what_a_cluster_is(make_protocol, make_table, unit, labels):
    spans = {"a": ("A", "d", [(1, 3)]), "b": ("A", "d", [(4, 6)]), "c": ("A", "e", [(1, 3)])}
    protocol = make_protocol(spans, intervals={"cluster": unit})
    positions = positions_of(make_table(protocol))
    clusters = clusters_of(positions, protocol)
    assert clusters.labels == labels
    assert [clusters.labels[at] for at in clusters.index] == [
        cluster_of(protocol.window(positions.windows[at]), unit) for at in positions.window
    ]
    last = clusters.take(positions.window == 2)
    assert last.labels == labels[-1:] and last.index.tolist() == [0, 0]
    with pytest.raises(ValueError, match="expected document, window or prompt"):
        cluster_of(protocol.windows[0], "shard")


def test_standard_error_of_equal_clusters_is_that_of_their_mean():
    means = np.random.default_rng(1).lognormal(0, 1, (12, 2))
    found = standard_errors(means * 30, np.full((12, 2), 30.0))
    assert found == pytest.approx(means.std(axis=0, ddof=1) / np.sqrt(12))


def test_standard_error_of_unequal_clusters_by_hand():
    """Ratio 6 / 4: residuals 1 - 1.5 and 5 - 4.5, their squares' sum 0.5, times 2 / 1, over 4."""
    assert standard_errors(np.array([[1.0], [5.0]]), np.array([[1.0], [3.0]])) == pytest.approx([1 / 4])


def test_standard_error_needs_two_clusters_with_positions():
    assert np.isnan(standard_errors(np.array([[2.0], [0.0]]), np.array([[5.0], [0.0]])))
    assert np.isnan(standard_errors(np.empty((0, 1)), np.empty((0, 1)))) and np.isnan(
        standard_errors(np.ones((1, 1)), np.ones((1, 1)))
    )


def test_a_figure_of_one_cluster_among_several_has_no_interval():
    """Strong positions in one document alone: every resample that has any gives the same rate."""
    values, index = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1], dtype=np.int32)
    weights = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    resampler = Resampler(seed=1, resamples=200)
    found = cluster_intervals(values, weights, index, 2, resampler)
    for bounds in (found.percentile, ratio_intervals(values, weights, index, 2, resampler)):
        assert np.isnan([bounds.low[0], bounds.high[0]]).all() and np.isfinite([bounds.low[1], bounds.high[1]]).all()
    assert np.isnan(found.standard_error[0]) and found.bca_reasons[0] == "fewer than two clusters with positions"


@pytest.mark.parametrize("clusters", [0, 1])
def test_no_cluster_and_one_cluster_have_no_interval_of_any_kind(clusters: int):
    rows = np.ones((clusters * 3, 2))
    index = np.zeros(len(rows), dtype=np.int32)
    found = cluster_intervals(rows, rows, index, clusters, Resampler(seed=1, resamples=100))
    for ends in (*found.percentile, *found.bca, *found.log_t, found.standard_error):
        assert ends.shape == (2,) and np.isnan(ends).all()
    assert set(found.bca_reasons + found.log_t_reasons) == {"fewer than two clusters with positions"}


def test_what_is_not_finite_gives_no_interval_rather_than_a_wrong_one():
    values = np.array([[0.5, 0.5], [np.nan, 0.25], [0.75, 1.0]])
    found = cluster_intervals(values, np.ones((3, 2)), np.arange(3), 3, Resampler(seed=1, resamples=200))
    for ends in (*found.percentile, *found.bca, *found.log_t, found.standard_error):
        assert np.isnan(ends[0]) and np.isfinite(ends[1])


def test_draws_come_in_slices_and_are_drawn_again_when_they_were_dropped(monkeypatch):
    expected = Resampler(seed=8, resamples=300).multiplicities(9)
    monkeypatch.setattr("drift_runs.measure.resampler.SLICE_ENTRIES", 50)
    monkeypatch.setattr("drift_runs.measure.resampler.KEPT_BYTES", 300 * 9 * 2)
    resampler = Resampler(seed=8, resamples=300)
    first = resampler.multiplicities(9)
    assert np.array_equal(first, expected) and resampler.multiplicities(9) is first
    resampler.multiplicities(4)
    assert np.array_equal(resampler.multiplicities(9), expected) and resampler.multiplicities(9) is not first
    by_cluster = np.random.default_rng(1).integers(0, 50, (9, 3)).astype(float)
    assert np.array_equal(resampler.sums(by_cluster), expected.astype(float) @ by_cluster)
    starts = np.concatenate([drawn for _, drawn in resampler.block_starts(100)])
    assert np.array_equal(starts, np.random.default_rng(8).integers(0, 100, (300, 7)))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 90), clusters=st.integers(1, 6), entries=st.integers(1, 60))
def test_segments_of_any_length_give_the_same_quantiles(seed: int, n: int, clusters: int, entries: int):
    values, index = clustered(seed, max(n, clusters), clusters)
    values = np.round(values, 2)
    resampler = Resampler(seed=seed, resamples=20)
    whole = quantile_replicates(values, index, clusters, LEVELS, resampler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drift_runs.measure.resampled_quantiles.SLICE_ENTRIES", entries)
        assert np.array_equal(quantile_replicates(values, index, clusters, LEVELS, resampler), whole)
