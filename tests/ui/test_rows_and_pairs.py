"""Listed rows, pairs of candidates, and the agreement of figures."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.figures import write_number
from drift_runs.tracking.reader import load_agreement, load_listed, load_pairs
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import OUTLIER, InventedStore, build_store


def listed(store: InventedStore, arm: str, name: str) -> list[dict]:
    run_id = next(record.run_id for record in store.records() if record.arm == arm)
    return [row for row in load_listed(store.uri, run_id).to_pylist() if row["list"] == name]


def places(app: AppTest) -> list[tuple[str, int]]:
    rows = [row for row in Cells(table_html(app, "Rows")).rows if row.get("data-window")]
    return [(row["data-window"], int(row["data-position"])) for row in rows]


@pytest.mark.parametrize("name", ["strong_overturn", "dnll", "kl", "support_collapse"])
def test_each_list_shows_the_stored_rows_in_order(name: str, open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/rows.py", v="1", arm="ablated", listed=name)
    stored = listed(invented_store, "ablated", name)
    assert stored
    assert places(app) == [(row["window"], row["position"]) for row in stored]
    assert f"of {stored[0]['of']:,} such positions" in table_html(app, "Rows")


def test_text_of_a_model_is_text_and_shows_what_steers_a_terminal(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, "views/rows.py", v="1", arm="ablated", listed="kl")
    page = markup(app)
    assert Cells(page).tags.isdisjoint({"script", "img", "a", "iframe"})
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\\x1b[31m" in page and "\\u202e" in page
    assert not set(page) & {"\x1b", "\u202e"}


def test_without_outliers_their_rows_are_gone(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/rows.py", v="1", arm="ablated", listed="kl")
    assert OUTLIER in {window for window, _ in places(app)} and "outlier window" in markup(app)
    app.segmented_control(key="control.outliers").set_value("without").run()
    assert OUTLIER not in {window for window, _ in places(app)}


def test_a_list_that_is_empty_says_so(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/rows.py", v="1", arm="fa-off", listed="dnll")
    assert "No position is in this list." in markup(app)
    assert app.main.get("download_button") == []
    assert app.query_params["listed"] == "dnll"


OF_ONE_REFERENCE = ["q8_0", "q4_0", "kv-q4_0", "fa-off", "ablated", "kv-bf16"]


def pair(app: AppTest, left: str, right: str, outliers: str = "with") -> dict[str, str]:
    found = {
        cell["data-figure"]: text
        for row, cell, text in Cells(table_html(app, "Pairs")).cells
        if (row.get("data-left"), row.get("data-right"), row.get("data-outliers")) == (left, right, outliers)
        and "data-figure" in cell
    }
    assert found, (left, right)
    return found


def test_a_pair_shows_the_paired_difference_and_which_test_decides(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, "views/compare.py", v="1", figure="flip/rate", arms=OF_ONE_REFERENCE)
    stored = [
        row
        for row in load_pairs(invented_store.uri, invented_store.campaign).to_pylist()
        if (row["spec"], row["scope"], row["outliers"]) == ("flip", "all", "with")
    ]
    assert len(stored) == 15, "five candidates and one follow-up of one reference, and not the one of another"
    for row in stored:
        cells = pair(app, row["left"], row["right"])
        assert cells["difference"].startswith(
            write_number(row["difference"], "share", low=row["low"], high=row["high"])
        )
        decided = row["p_sign_flip"] < 0.05
        assert ("differ" in cells["sign_flip"]) == decided and row["sign_flip"] in cells["sign_flip"]
        assert f"left alone {row['left_only']:,}, right alone {row['right_only']:,}" in cells["mcnemar"]
    assert "positions independent" in table_html(app, "Pairs")
    assert "served" not in table_html(app, "Pairs")


def test_the_figure_of_the_pairs_is_in_the_address_and_a_wrong_one_is_named(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, "views/compare.py", v="1", figure="bogus/<b>")
    assert "figure = bogus/&lt;b&gt; in the link does not exist here" in markup(app)
    assert app.query_params["figure"] == "kl.full/mean"
    app.selectbox(key="control.figure").set_value("dnll/mean").run()
    assert app.query_params["figure"] == "dnll/mean" and "pair in dnll mean" in table_html(app, "Pairs")
    assert "McNemar" not in table_html(app, "Pairs"), "it is a test of flips"


def test_pairs_follow_the_facet_filters_and_the_positions(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/compare.py", v="1", scope="panel:P-A", weights=["q8_0", "q4_0"])
    rows = [row for row in Cells(table_html(app, "Pairs")).rows if row.get("data-left")]
    assert [{row["data-left"], row["data-right"]} for row in rows] == [{"q8_0", "q4_0"}]


def test_arms_that_may_not_be_compared_have_no_difference(open_app: OpenApp, tmp_path) -> None:
    store = build_store(tmp_path, arms=("q8_0", "q4_0", "micro-batch"), known=("spec",))
    table = table_html(open_app(store.folder, "views/compare.py"), "Pairs")
    assert "not comparable" in table and "not known: protocol" in table
    assert 'data-figure="difference"' not in table


def test_agreement_of_figures_is_a_picture_and_a_table(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/compare.py", v="1", outliers="without")
    stored = [
        row
        for row in load_agreement(invented_store.uri, invented_store.campaign).to_pylist()
        if row["outliers"] == "without"
    ]
    assert len(app.get("vega_lite_chart")) == 1
    cells = Cells(table_html(app, "Agreement of figures"))
    assert len([row for row in cells.rows]) == len(stored) + 1
    lowest = min((row for row in stored if row["tau"] is not None), key=lambda row: row["tau"])
    assert f">{lowest['tau']:.2f}<" in table_html(app, "Agreement of figures")
    assert "their order is turned round first" in markup(app), "the protocol expects answers"
