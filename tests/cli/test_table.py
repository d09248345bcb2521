"""How numbers read in the table, the progress line and the plan."""

from __future__ import annotations

import pyarrow as pa
import pytest

from drift_runs import schema
from drift_runs.cli import table
from drift_runs.cli.plan_estimate import size
from drift_runs.cli.progress import ProgressLine, duration

BASE = {
    "arm": "q4_0",
    "scope_kind": "all",
    "scope": "all",
    "outliers": "with",
    "n": 76,
    "excluded": 0,
    "state": "firm",
    "reason": "",
    "interval": "",
    "named": "",
    "floor": "",
    "verdict": "",
    "verdict_reason": "",
}


def figures(*rows: dict) -> pa.Table:
    return pa.Table.from_pylist([{**BASE, **row} for row in rows], schema=schema.FIGURES)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (-3e-6, "0"),
        (1.234e-5, "1.23e-05"),
        (0.001, "0.00100"),
        (0.08334, "0.0833"),
        (1.2345, "1.23"),
        (12.345, "12.3"),
        (1234.5, "1234"),
        (-0.02, "-0.0200"),
    ],
)
def test_nats(value: float | None, text: str) -> None:
    assert table.nats(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7805, "2 h 10 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (9728, "9.7 kB"), (25_664, "26 kB"), (3.4e9, "3.4 GB"), (9.9e12, "9.9 TB")],
)
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text


def test_a_row_keeps_its_marks() -> None:
    row = table.figures_row(
        "q4_0",
        figures(
            {"spec": "flip", "statistic": "rate", "value": 0.1, "low": 0.05, "high": 0.2},
            {"spec": "kl.full", "statistic": "mean", "value": 0.0833, "low": 0.07, "high": 0.09, "verdict": "above"},
            {"spec": "kl.full", "statistic": "mean", "outliers": "without", "value": 0.08},
            {"spec": "kl.full", "statistic": "p95", "value": 0.3, "state": "indicative"},
            {"spec": "kl.full", "statistic": "worst_range.p95", "value": 9.0, "state": "withheld", "named": "x"},
            {"spec": "strong_overturn", "statistic": "count", "value": 3.0},
        ),
        mark=" (follow-up)",
    )
    assert [cell.strip() for cell in row.split("  ") if cell.strip()] == [
        "q4_0",
        "10.00% [5.00, 20.00]",
        "0.0833 [0.0700, 0.0900]",
        "0.0800",
        "~0.300",
        "-",
        "3",
        "above (follow-up)",
    ]


def test_a_row_without_figures() -> None:
    assert table.figures_row("q4_0", figures()).split() == ["q4_0", "-", "-", "-", "-", "-", "-", "no", "verdict"]


ANSWERED = [
    {"spec": "answer.exact", "statistic": statistic, "value": value, "n": 68, "excluded": 2}
    for statistic, value in (("rate", 61 / 68), ("count", 61.0), ("reference_count", 66.0))
]


def test_exact_answers_have_a_column_where_some_are_expected() -> None:
    without, with_it = (table.header(answers=answers).splitlines()[0] for answers in (False, True))
    assert "exact answers" not in without and without in with_it.replace("exact answers  ", "")
    row = table.figures_row("q4_0", figures(*ANSWERED), answers=True)
    assert row[with_it.index("exact answers") :].startswith("61/68  ")
    assert "61" not in table.figures_row("q4_0", figures(*ANSWERED))
    assert table.figures_row("q4_0", figures(), answers=True).split() == ["q4_0", *["-"] * 7, "no", "verdict"]


def test_the_legend_says_what_exact_answers_are_of() -> None:
    fewer = [{**row, "value": 3.0, "n": 4, "excluded": 66} for row in ANSWERED]
    assert table.answers_lines([None, figures(), figures(*fewer), figures(*ANSWERED)]) == [
        "exact answers: of the expected ones that were judged, those that the arm would write to the letter; "
        "the reference 66/68; 2 more not judged."
    ]
    withheld = [{**row, "value": None, "state": "withheld", "n": 0} for row in ANSWERED]
    assert table.answers_lines([figures(*withheld)]) == [] == table.answers_lines([])
    assert table.figures_row("q4_0", figures(*withheld), answers=True).split()[7] == "-"


def test_progress_is_quiet_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    line = ProgressLine()
    line.show("half way")
    line.clear()
    assert capsys.readouterr().err == ""


def test_a_shorter_line_covers_the_longer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    line = ProgressLine()
    line.show("a long line")
    line.show("short")
    line.clear()
    assert capsys.readouterr().err == "\ra long line\rshort      \r" + " " * 5 + "\r"


def test_a_worst_range_of_zeros_names_none() -> None:
    from drift_runs.measure.figures import Figure, figures_table

    common = {"arm": "launch", "scope_kind": "all", "scope": "all", "outliers": "with", "spec": "kl.full", "n": 9}
    zero = Figure(**common, statistic="worst_range.p95", value=0.0, named="first-of-equals", state="indicative")
    row = table.figures_row("launch", figures_table([Figure(**common, statistic="window_mean", value=0.0), zero]))
    assert "no range is above 0" in row and "first-of-equals" not in row
