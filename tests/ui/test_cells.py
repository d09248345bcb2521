"""What a cell says beside its number."""

from __future__ import annotations

from dataclasses import replace

from dashboard.components.cells import borrowed_chip, figure_cell, named_share
from dashboard.components.measures import interval_lines, n_lines, state_lines, unit_of, value_lines, without_k
from dashboard.figures import Column
from drift_runs.measure.figures import Figure

COLUMN = Column(key="mean", header="KL mean, nats", spec="kl.full", statistic="mean", unit="nats")
FIGURE = Figure(
    arm="a",
    scope_kind="all",
    scope="all",
    outliers="with",
    spec="kl.full",
    statistic="mean",
    value=0.0123,
    n=300,
    low=0.010,
    high=0.015,
    interval="percentile bootstrap, 95 %, 6 documents",
    floor="launch",
    floor_value=0.001,
)


def words(parts: object) -> str:
    return " ".join(str(part) for part in parts if part is not None)


def test_the_share_of_resamples_is_a_whole_percent_and_absent_when_there_is_none() -> None:
    assert named_share(replace(FIGURE, named="r", named_share=0.5)) == "50%"
    assert named_share(FIGURE) == ""
    assert "worst in 50%" in words(figure_cell(replace(FIGURE, named="r", named_share=0.5), COLUMN))


def test_a_borrowed_floor_says_that_it_is_and_why_there_is_no_verdict() -> None:
    borrowed = replace(FIGURE, borrowed=True, verdict_reason="a floor of another reference gives no verdict")
    chip = borrowed_chip(borrowed)
    assert chip is not None and ">borrowed<" in chip and "no verdict" in chip and "launch" in chip
    cell = words(figure_cell(borrowed, COLUMN))
    assert "floor 0.0010" in cell and ">borrowed<" in cell
    assert borrowed_chip(FIGURE) is None and ">borrowed<" not in words(figure_cell(FIGURE, COLUMN))


def test_units_follow_spec_and_statistic_also_over_launches_and_ranges() -> None:
    wanted = {
        ("kl.topk-shared@20", "p99"): "nats",
        ("kl.full", "tail_share"): "share",
        ("kl.full", "windows_above"): "count",
        ("kl.full", "p95.launches_max"): "nats",
        ("kl.full", "p99.9.launches_min"): "nats",
        ("flip", "rate.launches_mean"): "share",
        ("flip", "worst_range.rate"): "share",
        ("strong_overturn", "count"): "count",
        ("shared_support@20", "mean"): "number",
        ("reference_mass_outside@20", "max"): "share",
        ("padding_mass.candidate", "max"): "share",
        ("rank.reference", "first_share"): "share",
        ("dp", "mean"): "number",
        ("entropy.topk@20.reference", "mean"): "nats",
        ("rollout.exact", "share"): "share",
        ("rollout.prefix", "tokens"): "tokens",
    }
    assert {key: unit_of(*key) for key in wanted} == wanted


def test_k_is_taken_out_wherever_it_stands() -> None:
    assert without_k("entropy.topk@20.reference") == "entropy.topk.reference"
    assert without_k("kl.topk-shared@20") == without_k("kl.topk-shared@") == without_k("kl.topk-shared")
    assert without_k("flip.strict") == "flip.strict"


def test_every_interval_that_was_computed_is_said_and_none_is_made_up() -> None:
    assert words(interval_lines(replace(FIGURE, low=None, high=None), "nats")).count("no interval") == 1
    full = replace(FIGURE, bca_low=0.011, bca_high=0.016, t_low=0.009, t_high=0.018, standard_error=0.0012)
    lines = words(interval_lines(full, "nats"))
    assert "[0.0100, 0.0150]" in lines and "BCa [0.0110, 0.0160]" in lines
    assert "t [0.0090, 0.0180]" in lines and "SE 0.0012" in lines
    assert "BCa" not in words(interval_lines(FIGURE, "nats"))


def test_windows_are_counted_of_windows_and_not_of_positions() -> None:
    above = replace(FIGURE, statistic="windows_above", value=18.0, n=18, low=None, high=None)
    assert "18 of 18" in words(value_lines(above, "count")) and n_lines(above) == []
    assert "2 left out" in words(n_lines(replace(FIGURE, excluded=2)))


def test_a_withheld_figure_shows_its_reason_in_place_of_a_number() -> None:
    withheld = replace(FIGURE, value=None, state="withheld", reason="3 values lie beyond it, 10 needed")
    assert "withheld" in words(value_lines(withheld, "nats"))
    assert "3 values lie beyond it" in words(state_lines(withheld))
