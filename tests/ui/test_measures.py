"""The page of measures: what is shown is what is stored, and what is absent says why."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.figures import write_number
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import SHIFT_NATS, TOP_K, InventedStore

VIEW = "views/measures.py"


def row_text(app: AppTest, label: str, spec: str, statistic: str, outliers: str = "with") -> str:
    """Text of one measure's row."""
    cells = [
        text
        for row, _, text in Cells(table_html(app, label)).cells
        if (row.get("data-spec"), row.get("data-statistic"), row.get("data-outliers")) == (spec, statistic, outliers)
    ]
    assert cells, (label, spec, statistic, outliers)
    return " | ".join(cells)


def scope_text(app: AppTest, label: str, scope: str, figure: str) -> str:
    (text,) = [
        text
        for row, cell, text in Cells(table_html(app, label)).cells
        if row.get("data-scope") == scope and cell.get("data-figure") == figure
    ]
    return text


def written(row: dict, unit: str) -> str:
    return write_number(row["value"], unit, low=row["low"], high=row["high"])


def test_every_definition_stands_in_its_own_row_with_its_k(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="q4_0")
    cells = Cells(table_html(app, "Divergence in all its forms")).cells
    k = f"@{TOP_K}"
    specs = ["kl.full", "js.full", *(f"kl.topk-{name}{k}" for name in ("tail", "shared", "lower", "floor"))]
    assert list(dict.fromkeys(row["data-spec"] for row, _, _ in cells if row.get("data-spec"))) == specs
    for spec in specs:
        for statistic in ("mean", "p50", "p95", "p99", "max"):
            row = invented_store.figure("q4_0", spec, statistic, "with")
            (text,) = [
                text for at, cell, text in cells if at.get("data-spec") == spec and cell.get("data-figure") == statistic
            ]
            assert text.startswith(written(row, "nats")), (spec, statistic)
    shared = invented_store.figure("q4_0", f"kl.topk-shared{k}", "mean", "with")
    assert shared["excluded"] > 0 and f"{shared['n']:,}" in table_html(app, "Divergence in all its forms")


def test_a_measure_has_value_intervals_n_and_floor(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="q4_0")
    row = invented_store.figure("q4_0", "flip", "rate", "with")
    text = row_text(app, "Flips", "flip", "rate")
    assert written(row, "share") in text and f"{row['n']:,}" in text
    assert f"SE {write_number(row['standard_error'], 'share', digits=2)}" in text and "BCa [" in text and "t [" in text
    assert row["floor"] in text and row["interval"] in markup(app)
    above = invented_store.figure("q4_0", "entropy.full", "windows_above", "with")
    assert f"{above['value']:.0f} of {above['n']}" in row_text(
        app, "Entropy and likelihood", "entropy.full", "windows_above"
    )


def test_a_flatter_candidate_is_called_flatter(open_app: OpenApp, invented_store: InventedStore) -> None:
    page = markup(open_app(invented_store.folder, VIEW, v="1", arm="q4_0"))
    assert "<b>flatter than</b>" in page and "higher in 7 of 7 windows" in page
    gap = invented_store.figure("q4_0", "dentropy.full", "mean", "with")
    assert gap["value"] == pytest.approx(SHIFT_NATS)
    same = markup(open_app(invented_store.folder, VIEW, v="1", arm="launch"))
    assert "<b>as flat as</b>" in same


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("By history", "history"),
        ("By depth of the stream", "depth"),
        ("By quarter of the window", "quarter"),
        ("Flips by confidence", "band"),
        ("Copies", "copied"),
        ("Literals", "literal"),
        ("By role", "role"),
        ("By group", "group"),
    ],
)
def test_every_kind_of_scope_has_its_rows(
    label: str, kind: str, open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="q4_0")
    stored = [
        row
        for row in invented_store.figures["q4_0"].to_pylist()
        if (row["scope_kind"], row["spec"], row["statistic"], row["outliers"]) == (kind, "kl.full", "mean", "with")
    ]
    assert len(stored) > 1
    for row in stored:
        assert scope_text(app, label, row["scope"], "mean").startswith(written(row, "nats"))


def test_the_switch_holds_for_every_table(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="q8_0", outliers="both")
    for outliers in ("with", "without"):
        row = invented_store.figure("q8_0", "dnll", "mean", outliers)
        assert written(row, "nats") in row_text(app, "Entropy and likelihood", "dnll", "mean", outliers)
    app.segmented_control(key="control.outliers").set_value("without").run()
    assert 'data-outliers="with"' not in markup(app)


def test_launches_are_given_apart_and_not_pooled(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="q8_0")
    values = [invented_store.figure(arm, "kl.full", "mean", "with")["value"] for arm in ("q8_0", "q8_0#2")]
    for end, value in (("min", min(values)), ("max", max(values)), ("mean", sum(values) / 2)):
        assert write_number(value, "nats") in row_text(app, "Launches", "kl.full", f"mean.launches_{end}")
    assert "q8_0#2" in markup(app)
    assert 'aria-label="Launches"' not in markup(open_app(invented_store.folder, VIEW, v="1", arm="q4_0"))


def test_no_figure_of_the_arm_is_left_out_of_the_page(open_app: OpenApp, invented_store: InventedStore) -> None:
    page = markup(open_app(invented_store.folder, VIEW, v="1", arm="q8_0"))
    shown = {(row["data-spec"], row["data-statistic"]) for row in Cells(page).rows if "data-statistic" in row}
    forms = {"mean", "p50", "p90", "p95", "p99", "p99.9", "max"}
    for row in invented_store.figures["q8_0"].to_pylist():
        if (row["scope_kind"], row["outliers"]) == ("all", "with"):
            divergence = row["spec"].startswith(("kl.", "js.")) and row["statistic"] in forms
            assert divergence or (row["spec"], row["statistic"]) in shown, (row["spec"], row["statistic"])


def test_a_borrowed_floor_is_marked_in_every_row(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="served")
    assert "against f16-served" in markup(app)
    text = row_text(app, "Flips", "flip", "rate")
    assert "borrowed" in text and "above floor" not in markup(app)


def test_a_panel_has_its_own_measures(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="q4_0", scope="panel:P-B")
    row = invented_store.figure("q4_0", "dnll", "mean", "with", "panel", "P-B")
    assert written(row, "nats") in row_text(app, "Entropy and likelihood", "dnll", "mean")
    assert "Over all scored positions, not the chosen panel alone." in markup(app)


def test_every_arm_can_be_chosen_and_the_choice_is_in_the_address(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW)
    options = app.selectbox(key="control.arm").options
    assert options[0] == "q8_0" and {"launch", "micro-batch", "q8_0#2", "kv-bf16"} <= set(options)
    app.selectbox(key="control.arm").set_value("micro-batch").run()
    assert app.query_params["arm"] == "micro-batch"
    assert "kl.full" in table_html(app, "Divergence in all its forms")
