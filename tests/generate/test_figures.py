"""Rollouts and sampled draws as figures: every reading a row, names that hold, counts of both sides."""

from __future__ import annotations

import pyarrow as pa

from drift_runs.generate.figures import rollout_figures, sampled_figures, temperature_label
from drift_runs.generate.rollouts import compare_rollouts
from drift_runs.generate.sampled import compare_sampled
from drift_runs.measure.resampler import Resampler
from drift_runs.schema import FIGURES
from drift_runs.tracking.names import checked_batch, name_of
from tests.generate.test_sampled import LEFT, RIGHT

RESAMPLER = Resampler(seed=1, resamples=200)


def rows(table: pa.Table) -> dict[tuple[str, str, str], dict]:
    assert table.schema.equals(FIGURES, check_metadata=True)
    found = {
        (row["spec"], row["statistic"], row["scope"]): row for row in table.to_pylist() if row["outliers"] == "with"
    }
    assert len(found) * 2 == table.num_rows
    return found


def test_rollouts():
    found = compare_rollouts(LEFT, RIGHT, run=1, resampler=RESAMPLER, end_tokens={1})
    figures = rows(rollout_figures(found, arm="q4_0", resampler=RESAMPLER))
    assert figures["rollout.exact", "share", "all"]["value"] == 0.5
    assert figures["rollout.exact", "share", "all"]["clusters"] == 2
    assert figures["rollout.exact", "share", "all"]["interval"] == "percentile bootstrap, 95 %, 2 prompts"
    assert [
        (figures["rollout.early_stop", f"{side}.count", "all"]["value"])
        for side in ("reference", "candidate", "differ")
    ] == [0, 1, 1]
    assert figures["rollout.loop", "candidate.count", "all"]["value"] == 0
    assert figures["rollout.first", "count", "0"]["value"] == 1


def test_what_is_not_known_of_end_tokens_is_no_figure():
    found = compare_rollouts(LEFT, RIGHT, run=1)
    specs = {spec for spec, _, _ in rows(rollout_figures(found, arm="q4_0", resampler=RESAMPLER))}
    assert "rollout.loop" in specs and "rollout.early_stop" not in specs


def test_sampled_draws():
    found = compare_sampled(LEFT, RIGHT, temperature=0.7, resampler=RESAMPLER, end_tokens={1})
    figures = rows(sampled_figures(found, arm="q4_0", resampler=RESAMPLER))
    exact = figures["sampled.exact@0.7", "share", "all"]
    assert (exact["value"], exact["n"], exact["clusters"]) == (0.5, 4, 2)
    assert "common noise, 2 draws, tokens compared by id; 0.5 to 0.5 in a draw; 2 prompts: such" in exact["reason"]
    assert "0.625 to 0.75" not in figures["sampled.prefix@0.7", "share", "all"]["reason"]
    assert "0.5 to 0.75 in a draw" in figures["sampled.prefix@0.7", "share", "all"]["reason"]
    assert figures["sampled.exact@0.7", "count", "all"]["value"] == 2
    assert figures["sampled.prefix@0.7", "tokens", "all"]["n"] == 16
    assert figures["sampled.early_stop@0.7", "differ.count", "all"]["value"] == 1
    assert figures["sampled.prefix.dlogprob@0.7", "mean_abs", "all"]["value"] == 0.5
    assert {scope: row["value"] for (spec, _, scope), row in figures.items() if spec == "sampled.first@0.7"} == {
        "0": 1,
        "2": 1,
    }


def test_names_of_all_temperatures_hold_and_are_apart():
    names = []
    for temperature in (0.7, 0.70000001, 1.0, 1.5, 1e-5):
        found = compare_sampled(LEFT, RIGHT, temperature=temperature, end_tokens={1})
        table = sampled_figures(found, arm="q4_0", resampler=RESAMPLER)
        names += [name_of(row) for row in table.to_pylist()]
    assert len(checked_batch(names)) == len(names)
    assert "sampled.exact.0.7/all/share" in names and "sampled.loop.1/all/candidate.count" in names


def test_a_temperature_reads_back():
    for temperature in (0.7, 1.0, 10.0, 0.1 + 0.2, 1e-5):
        assert float(temperature_label(temperature)) == temperature
    assert (temperature_label(1.0), temperature_label(0.7)) == ("1", "0.7")
