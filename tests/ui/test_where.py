"""Tails, determinism, the text of a range and outliers: what is shown is what is stored."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components.passage import marks_of
from dashboard.figures import write_number
from drift_runs import schema
from drift_runs.measure.text import TokenText
from drift_runs.tracking import artifacts
from drift_runs.tracking.mlflow_store import artifact
from drift_runs.tracking.reader import load_distribution, load_rows
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, figure_text, markup, table_html
from tests.ui.synthetic import OUTLIER, InventedStore, build_store

FIRST_RANGE = "code-1-0"


def shown(row: dict, unit: str) -> str:
    return write_number(row["value"], unit, low=row["low"], high=row["high"])


def run_of(store: InventedStore, arm: str) -> str:
    return next(found.run_id for found in store.records() if found.arm == arm)


def csv_keys(app: AppTest) -> list[str]:
    ids = [button.proto.id for button in app.get("download_button")]
    return [name.rpartition("csv.")[2] for name in ids if "csv." in name]


def chart_rows(app: AppTest, at: int) -> list[dict]:
    """Every row of the data that the layers of a chart share, as the page sends it."""
    return pa.ipc.open_stream(app.get("vega_lite_chart")[at].proto.data.data).read_all().to_pylist()


def attributes(html: str, name: str) -> list[dict]:
    """Attributes of every element that has one of that name."""
    from html.parser import HTMLParser

    found: list[dict] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list) -> None:
            if name in dict(attrs):
                found.append(dict(attrs))

    Reader().feed(html)
    return found


class TestTails:
    def test_quantiles_are_the_stored_ones_with_their_guard(
        self, open_app: OpenApp, invented_store: InventedStore
    ) -> None:
        app = open_app(invented_store.folder, "views/tails.py")
        for arm in ("q4_0", "micro-batch", "kv-bf16"):
            for statistic in ("p50", "p95", "p99", "max"):
                row = invented_store.figure(arm, "kl.full", statistic, "with")
                assert figure_text(app, "Quantiles", arm, statistic).startswith(shown(row, "nats"))
            withheld = invented_store.figure(arm, "kl.full", "p99.9", "with")
            assert withheld["state"] == "withheld" and withheld["reason"] in figure_text(app, "Quantiles", arm, "p99.9")
            share = invented_store.figure(arm, "kl.full", "tail_share", "with")
            assert figure_text(app, "Quantiles", arm, "tail_share").startswith(shown(share, "share"))
            assert figure_text(app, "Quantiles", arm, "n").startswith(f"{share['n']:,}")
        firm = invented_store.figure("q4_0", "kl.full", "p90", "with")
        assert firm["state"] == "firm" and f"{firm['beyond']:,} beyond" in figure_text(app, "Quantiles", "q4_0", "p90")
        assert csv_keys(app) == ["distribution", "quantiles", "bucket.history", "bucket.depth", "bucket.quarter"]

    def test_the_lines_count_the_stored_positions(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        rows = chart_rows(open_app(invented_store.folder, "views/tails.py"), 0)
        values = load_rows(invented_store.uri, run_of(invented_store, "q4_0"))["kl_full_nats"].to_numpy()
        steps = {row["nats"]: row["count"] for row in rows if row["arm"] == "q4_0"}
        assert len(steps) > 20
        for nats, count in list(steps.items())[::9]:
            assert count == int((values >= nats).sum())
        assert {row["group"] for row in rows if row["arm"] == "micro-batch"} == {"floor"}
        assert not any(row["arm"] == "served" for row in rows), "what is not comparable is not drawn among the others"

    @pytest.mark.parametrize("outliers", ["without", "both"])
    def test_the_switch_acts_on_lines_and_table(
        self, outliers: str, open_app: OpenApp, invented_store: InventedStore
    ) -> None:
        app = open_app(invented_store.folder, "views/tails.py", v="1", outliers=outliers)
        row = invented_store.figure("q4_0", "kl.full", "p95", "without")
        assert figure_text(app, "Quantiles", "q4_0", "p95", "without").startswith(shown(row, "nats"))
        assert ("incl. outlier" in table_html(app, "Quantiles")) == (outliers == "both")
        counts = {
            item["n"]
            for at in range(1 + (outliers == "both"))
            for item in chart_rows(app, at)
            if item.get("group") == "arm"
        }
        whole = invented_store.figure("q4_0", "kl.full", "p95", "with")["n"]
        assert counts == ({row["n"], whole} if outliers == "both" else {row["n"]})

    def test_buckets_have_every_arm_and_their_n(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/tails.py", v="1", metric="divergence.mean")
        for title, kind, scope in (("By history", "history", "129-256"), ("By quarter of the window", "quarter", "q4")):
            row = invented_store.figure("ablated", "kl.full", "mean", "with", kind, scope)
            cells = [
                text
                for line, cell, text in Cells(table_html(app, title)).cells
                if line.get("data-arm") == "ablated" and cell.get("data-scope") == scope
            ]
            assert len(cells) == 1 and cells[0].startswith(shown(row, "nats"))
            assert f"n {row['n']:,}" in table_html(app, title)

    def test_a_panel_has_its_own_distribution(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/tails.py", v="1", scope="panel:P-B")
        row = invented_store.figure("q8_0", "kl.full", "p90", "with", "panel", "P-B")
        assert figure_text(app, "Quantiles", "q8_0", "p90").startswith(shown(row, "nats"))
        assert {item["n"] for item in chart_rows(app, 0) if item.get("arm") == "q8_0"} == {row["n"]}

    def test_an_older_campaign_says_what_computes_its_distribution(self, open_app: OpenApp, tmp_path: Path) -> None:
        store = build_store(tmp_path, arms=("micro-batch", "q8_0"))
        for arm in ("micro-batch", "q8_0"):
            with artifact(store.uri, run_of(store, arm), artifacts.DISTRIBUTION_FILE) as path:
                path.unlink()
            assert load_distribution(store.uri, run_of(store, arm)).schema.equals(schema.DISTRIBUTION)
        page = markup(open_app(store.folder, "views/tails.py"))
        assert "No distribution was stored of q8_0, micro-batch" in page
        assert f"drift measure --add {store.campaign[:8]}" in page
        assert 'aria-label="Quantiles"' in page, "everything else is shown all the same"


class TestDeterminism:
    def test_what_was_found_and_whether_it_holds(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/determinism.py")
        page = markup(app)
        assert "2 of 2 floors are as the protocol expects" in page
        rows = invented_store.figure("launch", "kl.full", "mean", "with")["n"]
        assert figure_text(app, "Determinism", "launch", "windows_identical") == "7 of 7"
        assert figure_text(app, "Determinism", "launch", "rows_identical").startswith(f"{rows:,} of {rows:,}")
        assert figure_text(app, "Determinism", "launch", "holds") == "● holds every row is identical"
        assert figure_text(app, "Determinism", "micro-batch", "windows_identical") == "0 of 7"
        assert f"{rows:,} of {rows:,} rows differ" in figure_text(app, "Determinism", "micro-batch", "holds")
        assert figure_text(app, "Determinism", "micro-batch", "first") == "code-1 position 20"
        assert "micro batch 64" in page and "none was run" in page

    def test_what_is_refuted_is_said(self, open_app: OpenApp, tmp_path: Path, monkeypatch) -> None:
        from tests.ui import synthetic

        drifting = dict(synthetic.ARMS)
        still = drifting["launch"]
        drifting["launch"] = synthetic.Invented(
            role="floor", median_kl_nats=1e-6, floor_kind="launch", rows_expected="identical"
        )
        drifting["micro-batch"] = synthetic.Invented(
            role="floor", median_kl_nats=still.median_kl_nats, floor_kind="geometry", rows_expected="differ"
        )
        monkeypatch.setattr(synthetic, "ARMS", drifting)
        store = build_store(tmp_path, arms=("launch", "micro-batch", "q8_0"))
        app = open_app(store.folder, "views/determinism.py")
        assert "0 of 2 floors are as the protocol expects" in markup(app)
        assert "refuted" in figure_text(app, "Determinism", "launch", "holds")
        assert "so the setting changed nothing" in figure_text(app, "Determinism", "micro-batch", "holds")
        assert {row["holds"] for row in chart_rows(app, 0)} == {"no"}

    def test_the_switch_leaves_declared_windows_out(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/determinism.py", v="1", outliers="both")
        assert figure_text(app, "Determinism", "launch", "windows_identical", "with") == "7 of 7"
        assert figure_text(app, "Determinism", "launch", "windows_identical", "without") == "6 of 6"

    def test_means_between_launches(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/determinism.py")
        for name in ("mean", "difference"):
            row = invented_store.figure("q8_0", "kl.full", f"mean.launches_{name}", "with")
            text = figure_text(app, "Means between launches", "q8_0", f"launches_{name}")
            assert text == write_number(row["value"], "nats")
        assert "not known" in figure_text(app, "Means between launches", "q8_0", "launches_windows")


class TestRangeText:
    def test_every_token_has_its_place_and_its_shade(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/ranges.py", v="1", arm="ablated", span="call-1-1")
        table = load_rows(invented_store.uri, run_of(invented_store, "ablated"), "call-1").to_pylist()
        rows = {row["position"]: row for row in table if 340 <= row["position"] < 550}
        tokens = attributes(markup(app), "tabindex")
        assert [int(token["data-position"]) for token in tokens if "data-position" in token] == sorted(rows)
        for token in tokens:
            if "data-position" not in token:
                continue
            row = rows[int(token["data-position"])]
            shade = sum(row["kl_full_nats"] >= edge for edge in (0.001, 0.01, 0.1, 1.0))
            assert f"dr-l{shade}" in token["class"].split()
            assert ("dr-flip" in token["class"].split()) == row["flip"] == (token["data-flip"] == "yes")
            assert f"P {math.exp(-row['reference_nll_nats']):.4f}" in token["aria-label"]
        worst = max(rows.values(), key=lambda row: row["kl_full_nats"])
        assert f"at position {worst['position']:,}" in markup(app)
        first = next(
            cell for line, cell in _cells(app, "Largest positions of the range") if cell[0].get("data-figure") == "nats"
        )
        assert first[1] == write_number(worst["kl_full_nats"], "nats")

    def test_colouring_by_flip(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(
            invented_store.folder, "views/ranges.py", v="1", arm="ablated", span="call-1-1", colouring="flip"
        )
        tokens = [token for token in attributes(markup(app), "tabindex") if "data-position" in token]
        assert {("dr-flip-on" in token["class"].split(), token["data-flip"]) for token in tokens} == {
            (True, "yes"),
            (False, "no"),
        }

    @pytest.mark.parametrize(
        ("span", "shown", "raw"),
        [
            ("sql-1-0", ["&lt;img src=x onerror=alert(1)&gt;", "\\u001b[31m"], ["<img", "\x1b"]),
            ("code-1-0", ["\\u202e", "\u21b5"], ["\u202e"]),
            ("answer-1-0", ["\\xff"], ["\udcff"]),
        ],
    )
    def test_hostile_tokens_are_text_and_visible(
        self, span: str, shown: list[str], raw: list[str], open_app: OpenApp, invented_store: InventedStore
    ) -> None:
        app = open_app(invented_store.folder, "views/ranges.py", v="1", arm="q4_0", span=span)
        (page,) = [item.proto.body for item in app.get("html") if 'class="dr-tokens"' in item.proto.body]
        assert [words for words in shown if words not in page] == []
        assert [words for words in raw if words in page] == []

    def test_a_range_of_a_declared_window_goes_with_the_switch(
        self, open_app: OpenApp, invented_store: InventedStore
    ) -> None:
        app = open_app(invented_store.folder, "views/ranges.py", v="1", span=f"{OUTLIER}-0")
        assert app.selectbox(key="control.span").value == f"{OUTLIER}-0"
        said = next(item.proto.body for item in app.get("html") if "data-range-text" in item.proto.body)
        assert "incl. outlier" in said
        app = open_app(invented_store.folder, "views/ranges.py", v="1", span=f"{OUTLIER}-0", outliers="without")
        assert app.selectbox(key="control.span").value == FIRST_RANGE
        assert f"span = {OUTLIER}-0 in the link does not exist here" in markup(app)

    def test_the_choice_is_in_the_address(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/ranges.py")
        app.selectbox(key="control.span").set_value("sql-1-0").run()
        assert app.query_params["span"] == ["sql-1-0"] or app.query_params["span"] == "sql-1-0"
        app.segmented_control(key="control.colouring").set_value("flip").run()
        assert "flip" in app.query_params["colouring"]


def _cells(app: AppTest, label: str) -> list[tuple[dict, tuple[dict, str]]]:
    return [(row, (cell, text)) for row, cell, text in Cells(table_html(app, label)).cells]


class TestMarks:
    def test_a_character_that_tokens_split_stands_at_the_last(self) -> None:
        whole = "é".encode()
        tokens = TokenText([whole[:1], whole[1:], b"a\n", b"\xff"])
        rows = [dict.fromkeys(schema.COMPARISON.names) | {"position": at, "token": token, "flags": 0}
                for at, token in ((5, 0), (6, 1), (7, 2), (9, 0), (11, 3), (12, 99))]  # fmt: skip
        marks = marks_of(rows, "kl_full_nats", tokens)
        assert [mark.run for mark in marks[:3]] == ["", "é", "a\n"]
        assert marks[3].run == "\udcc3", "a gap ends the character"
        assert marks[4].run == "\udcff" and marks[5].run == "\\{99}"
        assert [mark.level for mark in marks] == [None] * 6

    def test_infinite_is_the_deepest_shade_and_no_number(self) -> None:
        row = dict.fromkeys(schema.COMPARISON.names) | {"position": 1, "flags": schema.RowFlag.INFINITE_KL}
        (mark,) = marks_of([row], "kl_full_nats", None)
        assert mark.infinite and mark.nats is None and mark.level == 4 and mark.text == "?"


class TestOutliers:
    def test_every_headline_figure_stands_both_ways(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        app = open_app(invented_store.folder, "views/outliers.py")
        label = "Aggregates with and without outliers"
        for key, spec, statistic, unit in (
            ("flip", "flip", "rate", "share"),
            ("p99", "kl.full", "p99", "nats"),
            ("max", "kl.full", "max", "nats"),
            ("tail_share", "kl.full", "tail_share", "share"),
            ("strong", "strong_overturn", "count", "count"),
            ("answers", "answer.exact", "rate", "share"),
        ):
            both = [invented_store.figure("q4_0", spec, statistic, outliers) for outliers in ("with", "without")]
            for row in both:
                text = figure_text(app, label, "q4_0", key, row["outliers"])
                assert key == "answers" or text.startswith(shown(row, unit)), (key, text)
            difference = both[0]["value"] - both[1]["value"]
            text = figure_text(app, label, "q4_0", f"{key}.difference")
            assert (text[0] == "-") == (difference < 0) and (text[0] == "+") == (difference > 0), (key, text)
        cells = [
            text
            for line, cell, text in Cells(table_html(app, label)).cells
            if line.get("data-arm") == "q4_0" and cell.get("data-figure") == "mean.n"
        ]
        assert cells == [
            f"{invented_store.figure('q4_0', 'kl.full', 'mean', kind)['n']:,}" for kind in ("with", "without")
        ]

    def test_the_sentence_is_about_the_largest_change(self, open_app: OpenApp, invented_store: InventedStore) -> None:
        shares = {}
        for arm in ("q8_0", "q4_0", "kv-q4_0", "fa-off", "ablated", "served", "kv-bf16"):
            with_, without = (
                invented_store.figure(arm, "kl.full", "mean", kind)["value"] for kind in ("with", "without")
            )
            shares[arm] = (with_ - without) / without
        most = max(shares, key=lambda arm: abs(shares[arm]))
        assert np.isfinite(list(shares.values())).all()
        page = markup(open_app(invented_store.folder, "views/outliers.py"))
        assert f"The declared windows move the mean of {most} most" in page
