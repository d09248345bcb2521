"""The pages on a real store: what is shown is what is stored."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components.determinism import determinism_cells
from dashboard.figures import write_number
from drift_runs.measure.determinism import DeterminismSummary
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, arms, figure_text, markup, table_html
from tests.ui.synthetic import ARMS, FLOORS, HOSTILE_TITLE, OTHERS, OUTLIER, OUTLIER_REASON, InventedStore, build_store

VIEWS = (
    "views/overview.py",
    "views/measures.py",
    "views/ranges.py",
    "views/rows.py",
    "views/answers.py",
    "views/compare.py",
    "views/outliers.py",
)
CANDIDATES = [name for name, arm in ARMS.items() if arm.role == "candidate" and name not in OTHERS]


def shown(row: dict, unit: str) -> str:
    return write_number(row["value"], unit, low=row["low"], high=row["high"])


def switch(app: AppTest, outliers: str) -> AppTest:
    return app.segmented_control(key="control.outliers").set_value(outliers).run()


def charts(app: AppTest) -> list:
    return app.get("vega_lite_chart")


def test_overview_shows_the_stored_figures_of_every_candidate(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    for arm in CANDIDATES:
        for key, spec, statistic, unit in (
            ("flip", "flip", "rate", "share"),
            ("mean", "kl.full", "mean", "nats"),
            ("p95", "kl.full", "p95", "nats"),
            ("worst", "kl.full", "worst_range.p95", "nats"),
            ("strong", "strong_overturn", "count", "count"),
        ):
            row = invented_store.figure(arm, spec, statistic, "with")
            cell = figure_text(app, "Candidates", arm, key)
            assert cell.startswith(shown(row, unit)), (arm, key, cell, row)
            assert row["named"] in cell
        strict = invented_store.figure(arm, "flip.strict", "rate", "with")
        assert f"strict {shown(strict, 'share')}" in figure_text(app, "Candidates", arm, "flip")


def test_floor_interval_and_verdict_stand_beside_the_figure(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    row = invented_store.figure("q4_0", "kl.full", "mean", "with")
    cell = figure_text(app, "Candidates", "q4_0", "mean")
    assert row["verdict"] == "above" and "▲ above floor" in cell
    assert f"floor {write_number(row['floor_value'], 'nats', digits=2)}" in cell
    assert f"[{write_number(row['low'], 'nats', low=row['low'], high=row['high'])}" in cell
    assert row["interval"] in markup(app) and row["floor"] in markup(app)


def test_roles_never_mix(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    assert sorted(arms(app, "Candidates")) == sorted(CANDIDATES)
    assert arms(app, "Follow-ups") == ["kv-bf16"]
    floors = Cells(table_html(app, "Floors"))
    assert [text for _, cell, text in floors.cells if cell.get("scope") == "row"] == list(FLOORS)
    assert "2,810 of 2,810" in table_html(app, "Floors") and "0 of 2,810" in table_html(app, "Floors")


def test_what_may_not_be_ranked_stands_apart_with_the_reasons(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, v="1", sort="mean")
    assert arms(app, "Not comparable with these") == list(OTHERS)
    table = table_html(app, "Not comparable with these")
    assert "another reference, or another execution of it" in table and "against f16-served" in table
    row = invented_store.figure("served", "kl.full", "mean", "with")
    assert row["borrowed"] and row["verdict"] == ""
    cell = figure_text(app, "Not comparable with these", "served", "mean")
    assert cell.startswith(shown(row, "nats")) and "borrowed" in cell and "above floor" not in cell
    assert "served" not in "".join(item.proto.spec for item in charts(app)), "no chart sets it beside the others"


def test_no_page_puts_what_is_not_comparable_in_an_order_with_others(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    outliers = open_app(invented_store.folder, "views/outliers.py", v="1", sort="mean")
    names = arms(outliers, "Declared windows on their own")
    assert names.index("served") == len(CANDIDATES), "after the ranked candidates, whatever its size"
    ranges = open_app(invented_store.folder, "views/ranges.py")
    assert "served" not in "".join(item.proto.spec for item in charts(ranges))
    assert "Not in the map, because not comparable with its arms" in markup(ranges)
    assert "served" in ranges.selectbox(key="control.arm").options, "its own ranges can be read"


def test_nothing_is_ranked_where_a_store_does_not_say_what_must_be_equal(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, arms=("q8_0", "q4_0", "micro-batch"), known=("spec", "protocol_sha256"))
    app = open_app(store.folder)
    assert 'aria-label="Candidates"' not in markup(app)
    table = table_html(app, "Not comparable with these")
    assert arms(app, "Not comparable with these") == ["q4_0", "q8_0"], "by name, in no order of size"
    assert "not known: panel, scored positions" in table
    assert charts(app) == []


def test_a_proposal_is_post_hoc_and_changes_no_figure(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/outliers.py")
    page = markup(app)
    assert "It changes no figure of this protocol" in page
    proposed = Cells(table_html(app, "Proposed windows"))
    windows = [row["data-window"] for row in proposed.rows if row.get("data-window")]
    assert windows == [OUTLIER]
    assert "post hoc" in table_html(app, "Proposed windows") and "declared already" in table_html(
        app, "Proposed windows"
    )


def test_determinism_follows_the_outlier_switch(open_app: OpenApp, invented_store: InventedStore) -> None:
    def rows(outliers: str) -> int:
        return invented_store.figure("micro-batch", "kl.full", "mean", outliers)["n"]

    both = table_html(open_app(invented_store.folder, v="1", outliers="both"), "Floors")
    assert rows("without") < rows("with")
    for outliers in ("with", "without"):
        assert f"0 of {rows(outliers):,}" in both and f"{rows(outliers):,} of {rows(outliers):,}" in both
    assert "determinism refuted" not in both


def test_rows_that_had_to_be_identical_and_are_not_are_marked() -> None:
    found = DeterminismSummary(
        windows=2,
        windows_identical=1,
        rows=10,
        rows_identical=9,
        rows_unhashable=0,
        max_abs_dlogit=0.25,
        max_abs_dlogprob=None,
        row_hash="row.full",
        first_difference=("w2", 7),
    )
    cells = "".join(determinism_cells("identical", found))
    assert "determinism refuted" in cells and "9 of 10" in cells and "1 of 2" in cells and "0.25" in cells
    assert "first at w2, 7" in cells
    assert "refuted" not in "".join(determinism_cells("report", found)), "a floor that may differ refutes nothing"


def test_the_header_says_what_was_asked_and_what_to_mind(open_app: OpenApp, invented_store: InventedStore) -> None:
    for view in VIEWS:
        page = markup(open_app(invented_store.folder, view))
        for words in ("invented", "version 2", "frozen", "f16", "Does the dashboard show", "dequantised Q4_1"):
            assert words in page, (view, words)
        assert "&lt;b&gt;not bold&lt;/b&gt;" in page


def test_hostile_text_is_text_on_every_page(open_app: OpenApp, invented_store: InventedStore) -> None:
    for view in VIEWS:
        app = open_app(invented_store.folder, view)
        assert Cells(markup(app)).tags.isdisjoint({"script", "img", "a", "iframe"})
        assert not [item for item in app.markdown if HOSTILE_TITLE in item.value]
    assert "&lt;script&gt;" in markup(open_app(invented_store.folder))


@pytest.mark.parametrize("outliers", ["with", "without"])
def test_the_switch_changes_the_figures(outliers: str, open_app: OpenApp, invented_store: InventedStore) -> None:
    app = switch(open_app(invented_store.folder, outliers="both", v="1"), outliers)
    row = invented_store.figure("q4_0", "kl.full", "mean", outliers)
    assert figure_text(app, "Candidates", "q4_0", "mean").startswith(shown(row, "nats"))
    assert app.query_params["outliers"] == outliers
    assert ("incl. outlier" in table_html(app, "Candidates")) == (outliers == "with")


def test_side_by_side_shows_both(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = switch(open_app(invented_store.folder), "both")
    for outliers in ("with", "without"):
        row = invented_store.figure("q8_0", "kl.full", "p95", outliers)
        assert figure_text(app, "Candidates", "q8_0", "p95", outliers).startswith(shown(row, "nats"))
    assert invented_store.figure("q8_0", "kl.full", "mean", "with")["n"] == 2810
    assert "2,810" in table_html(app, "Candidates") and "2,510" in table_html(app, "Candidates")


def test_the_view_survives_a_page_switch_and_a_new_session(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = switch(open_app(invented_store.folder), "without")
    app.query_params.clear()  # what a click in the navigation does
    app.switch_page("views/ranges.py").run()
    assert app.segmented_control(key="control.outliers").value == "without"
    assert app.query_params["outliers"] == "without"
    again = open_app(invented_store.folder, "views/ranges.py", **dict(app.query_params))
    assert again.segmented_control(key="control.outliers").value == "without"
    assert markup(again) == markup(app)


def test_a_bad_link_falls_back_and_says_so(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, v="1", outliers="<img src=x>", campaign="none", sort="flip")
    page = markup(app)
    assert "outliers = &lt;img src=x&gt; in the link is not known" in page
    assert "campaign = none in the link does not exist here" in page
    assert app.selectbox(key="control.sort").value == "flip"
    assert app.query_params["campaign"] == invented_store.campaign
    assert "is not known" not in markup(switch(app, "without")), "a note goes when the view changes"


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_sorting_is_by_the_stored_figure(order: str, open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, v="1", sort="flip", order=order)
    rates = [invented_store.figure(arm, "flip", "rate", "with")["value"] for arm in arms(app, "Candidates")]
    assert rates == sorted(rates, reverse=order == "desc")


def test_filters_hide_arms_and_say_how_many_are_left(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    app.multiselect(key="control.kv").set_value(["q4_0"]).run()
    assert arms(app, "Candidates") == ["kv-q4_0"]
    assert "1 of 6 candidates" in table_html(app, "Candidates")
    assert app.query_params["kv"] == "q4_0"
    assert "Floors" in markup(app), "floors stay: figures refer to them"
    app.multiselect(key="control.weights").set_value(["q8_0"]).run()
    assert "No candidate passes the filters." in markup(app)


def test_a_panel_has_its_own_figures(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    assert "pool the panels P-A and P-B" in table_html(app, "Candidates")
    app.selectbox(key="control.scope").set_value("panel:P-B").run()
    assert "pool the panels" not in table_html(app, "Candidates")
    row = invented_store.figure("q4_0", "kl.full", "mean", "with", "panel", "P-B")
    assert figure_text(app, "Candidates", "q4_0", "mean").startswith(shown(row, "nats"))
    app.selectbox(key="control.scope").set_value("panel:P-A").run()
    assert "incl. outlier" not in table_html(app, "Candidates"), "the outlier window is in the other panel"


def test_a_facet_stands_below_the_name_where_it_is_not_the_references(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder)
    table = table_html(app, "Candidates")
    for arm in ("q8_0", "kv-q4_0", "ablated"):
        row = next(piece for piece in table.split("<tr ") if f'data-arm="{arm}"' in piece)
        told = {piece.partition('"')[0] for piece in row.split('data-facet="')[1:]} - {"settings"}
        facts = ARMS[arm]
        differs = {
            "weights": facts.weights != "f16",
            "kv": facts.kv != "f16",
            "derivative": facts.derivative != "stock",
        }
        assert told == {facet for facet, is_other in differs.items() if is_other}, arm
    assert "what is not as in the reference (derivative stock, weights f16, KV f16)" in table
    n = invented_store.figure("q8_0", "flip", "rate", "with")["n"]
    assert figure_text(app, "Candidates", "q8_0", "flip").endswith(f"n {n:,}")


def test_floors_that_are_the_same_to_the_byte_are_named_beside_the_candidates(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    (said,) = [
        item.proto.body
        for item in open_app(invented_store.folder).get("html")
        if 'data-say="candidates"' in item.proto.body
    ]
    assert "Run again: identical to the byte: launch; not identical: micro-batch." in said


def test_facets_that_all_share_are_said_once(open_app: OpenApp, invented_store: InventedStore) -> None:
    page = table_html(open_app(invented_store.folder), "Candidates")
    assert "The same for every arm: engine llama_cpp (build 7), hardware cpu." in page
    assert "flash attention off" in page


def test_ranges_show_every_range_with_its_state(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/ranges.py", v="1", arm="q4_0")
    cells = Cells(table_html(app, "Ranges")).cells
    p95 = {row["data-range"]: text for row, cell, text in cells if cell.get("data-figure") == "p95"}
    assert len(p95) == 9
    for name, text in p95.items():
        row = invented_store.figure("q4_0", "kl.full", "p95", "with", "range", name)
        if row["state"] == "withheld":
            assert text.startswith("withheld") and row["reason"] in text
        else:
            assert text.startswith(shown(row, "nats")) and row["state"] in text
    assert "withheld 3 values" in p95["code-2-1"]
    worst = invented_store.figure("q4_0", "kl.full", "worst_range.p95", "with")
    marked = [row["data-range"] for row, _, text in cells if "worst range" in text]
    assert marked == [worst["named"]]


def test_without_outliers_their_ranges_are_gone(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/ranges.py", v="1", outliers="without")
    assert f'data-range="{OUTLIER}-0"' not in table_html(app, "Ranges")
    alone = len(charts(app))
    assert len(charts(switch(app, "both"))) == alone + 1, "a heat map for each set"


def test_the_heat_map_takes_another_figure(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/ranges.py")
    app.segmented_control(key="control.metric").set_value("flip.rate").run()
    assert "flip rate, share of positions" in charts(app)[0].proto.spec
    assert app.query_params["metric"] == "flip.rate"


def test_outliers_page_reports_the_declared_windows(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, "views/outliers.py")
    declared = table_html(app, "Declared outlier windows")
    assert OUTLIER in declared and OUTLIER_REASON in declared
    row = invented_store.figure("ablated", "kl.full", "mean", "only")
    assert figure_text(app, "Declared windows on their own", "ablated", "mean").startswith(shown(row, "nats"))
    for arm in ("q8_0", "micro-batch"):
        for outliers in ("with", "without"):
            row = invented_store.figure(arm, "kl.full", "mean", outliers)
            text = figure_text(app, "Aggregates with and without outliers", arm, "mean", outliers)
            assert text.startswith(shown(row, "nats"))


TABLES = {
    "views/overview.py": "candidates not-comparable follow-ups floors plot sizes",
    "views/measures.py": "divergence tail support entropy flips answers bands history depth quarter volatile copies "
    "literals role group launches",
    "views/ranges.py": "kinds ranges range-text",
    "views/rows.py": "rows",
    "views/answers.py": "answers lost",
    "views/compare.py": "side-by-side pairs settings agreement",
    "views/outliers.py": "declared proposed only both",
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_table_can_be_taken_as_csv(view: str, open_app: OpenApp, invented_store: InventedStore) -> None:
    buttons = open_app(invented_store.folder, view, v="1", arm="q8_0").get("download_button")
    found = [button.proto.id.rpartition("csv.")[2] for button in buttons if "csv." in button.proto.id]
    assert found == TABLES[view].split()
    assert not [button.label for button in buttons if button.proto.disabled]


def test_an_unfinished_arm_is_named_and_not_compared(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, unfinished_arm="q4_0", arms=("q8_0", "q4_0", "micro-batch"))
    app = open_app(store.folder)
    assert arms(app, "Candidates") == ["q8_0"]
    assert "Not compared, because not complete" in markup(app)


def test_an_unfinished_campaign_is_listed_with_a_mark(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, finish=False, draft=True, arms=("q8_0", "micro-batch"))
    app = open_app(store.folder)
    page = markup(app)
    assert "not complete, so nothing in it is compared" in page and "q8_0" in page
    assert "draft" in page and "data-figure" not in page
    assert app.selectbox(key="control.campaign").options[0].startswith("incomplete, draft: invented v2")


def test_a_draft_is_marked_on_every_row(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, draft=True, arms=("q8_0", "fa-off", "micro-batch"))
    table = table_html(open_app(store.folder), "Candidates")
    assert table.count(">draft<") == 2


def test_an_empty_store_says_what_to_run_and_writes_nothing(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app(tmp_path)
    assert "make demo" in markup(app) and "drift run" in markup(app)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_serve_is_named(open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import streamlit as st

    app = open_app(tmp_path)
    monkeypatch.setenv("DRIFT_TRACKING_URI", "ftp://example.invalid/store")
    st.cache_data.clear()
    app.run()
    assert "The store cannot be read." in markup(app) and "unknown scheme" in markup(app)


def test_a_campaign_whose_files_are_gone_is_named_and_can_be_left(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, arms=("q8_0", "micro-batch"))
    for path in tmp_path.glob("mlartifacts/**/figures.parquet"):
        path.unlink()
    app = open_app(store.folder)
    assert "This campaign cannot be read." in markup(app) and "summary/figures.parquet" in markup(app)
    assert app.selectbox(key="control.campaign").options


def test_two_campaigns_of_one_day_can_be_told_apart_and_chosen(open_app: OpenApp, tmp_path: Path) -> None:
    first = build_store(tmp_path, arms=("q8_0", "micro-batch"))
    second = build_store(tmp_path, draft=True, arms=("q4_0", "micro-batch"))
    app = open_app(tmp_path)
    options = app.selectbox(key="control.campaign").options
    assert len(set(options)) == 2 and "2 in this store" in app.selectbox(key="control.campaign").label
    assert app.query_params["campaign"] == second.campaign, "the newest complete one comes first"
    assert arms(app, "Candidates") == ["q4_0"]
    app.selectbox(key="control.campaign").set_value(first.campaign).run()
    assert arms(app, "Candidates") == ["q8_0"]
    assert app.query_params["campaign"] == first.campaign
