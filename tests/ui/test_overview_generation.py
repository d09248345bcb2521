"""The overview of a campaign that generated, its groups, its plot of any figure, and size against drift."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components.arm_sizes import size_words
from dashboard.figures import write_number
from drift_runs.charts.figure_by_facet import HATCH
from drift_runs.report.hardware import hardware_words
from drift_runs.tracking.reader import load_generation_figures, load_tasks
from tests.campaigns import Campaign
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, arms, figure_text, markup, table_html
from tests.ui.synthetic import ARMS, InventedStore

LEADING = (
    ("invalid", "branches", "invalid"),
    ("exact", "rollout.exact", "share"),
    ("prefix", "rollout.prefix", "share"),
)


def generated(campaign: Campaign, arm: str, spec: str, statistic: str, outliers: str = "with") -> dict:
    (record,) = campaign.records()
    run_id = next(found.run_id for found in record.arms if found.arm == arm)
    (row,) = [
        row
        for row in load_generation_figures(campaign.uri, run_id).to_pylist()
        if (row["arm"], row["spec"], row["statistic"], row["outliers"], row["scope_kind"])
        == (arm, spec, statistic, outliers, "all")
    ]
    return row


def columns(app: AppTest, label: str) -> list[str]:
    """Keys of the figures of a table, in the order of its first row."""
    found = [cell["data-figure"] for _, cell, _ in Cells(table_html(app, label)).cells if cell.get("data-figure")]
    return list(dict.fromkeys(found))


def plotted(app: AppTest, at: int = 0) -> dict:
    """The specification of a chart; data that all of its layers share travel beside it, and are put back."""
    proto = app.get("vega_lite_chart")[at].proto
    spec = json.loads(proto.spec)
    if "data" not in spec and proto.data.data:
        spec["data"] = {"values": pa.ipc.open_stream(proto.data.data).read_all().to_pylist()}
    return spec


def points(spec: dict) -> list[dict]:
    """The rows of a chart that draw a value, whichever place the data stand in."""
    part = next(part for part in spec["layer"] if part["mark"]["type"] == "point" and part["mark"].get("filled"))
    data = part.get("data") or spec["data"]
    return data["values"] if "values" in data else spec["datasets"][data["name"]]


def said(app: AppTest, name: str) -> str:
    (found,) = [item.proto.body for item in app.get("html") if f'data-say="{name}"' in item.proto.body]
    return found


def test_what_was_generated_stands_beside_what_was_measured(open_app: OpenApp, generated_store: Campaign) -> None:
    app = open_app(generated_store.root)
    assert columns(app, "Candidates")[-4:] == ["invalid", "exact", "prefix", "passed"]
    for key, spec, statistic in LEADING:
        row = generated(generated_store, "q4_0", spec, statistic)
        shown = write_number(row["value"], "share", low=row["low"], high=row["high"])
        assert figure_text(app, "Candidates", "q4_0", key).startswith(shown), key
    invalid = generated(generated_store, "q4_0", "branches", "invalid")
    malformed = generated(generated_store, "q4_0", "branches", "malformed")
    cell = figure_text(app, "Candidates", "q4_0", "invalid")
    assert f"{malformed['value']:.0f} of {invalid['n']} root" in cell
    assert f"floor {write_number(invalid['floor_value'], 'share', digits=2)}" in cell
    exact = generated(generated_store, "q4_0", "rollout.exact", "count")
    assert f"{exact['value']:.0f} of 3 prompts" in figure_text(app, "Candidates", "q4_0", "exact")


def test_task_passes_stand_against_the_reference(open_app: OpenApp, generated_store: Campaign) -> None:
    app = open_app(generated_store.root)
    (record,) = generated_store.records()
    own = load_tasks(generated_store.uri, next(arm.run_id for arm in record.arms if arm.arm == "q4_0"))["passed"]
    reference = load_tasks(generated_store.uri, record.run_id)["passed"]
    cell = figure_text(app, "Candidates", "q4_0", "passed")
    assert cell.startswith(f"{sum(own.to_pylist())}/1") and f"reference {sum(reference.to_pylist())}/1" in cell
    assert "lost" in cell and "gained" in cell


def test_a_constrained_decode_is_no_arm_of_its_own(open_app: OpenApp, generated_store: Campaign) -> None:
    assert arms(open_app(generated_store.root), "Candidates") == ["q4_0"]


def test_floors_show_what_generation_does_between_two_executions(open_app: OpenApp, generated_store: Campaign) -> None:
    app = open_app(generated_store.root)
    row = generated(generated_store, "f16-decode", "rollout.exact", "share")
    text = figure_text(app, "Floors", "f16-decode", "exact")
    assert text.startswith(write_number(row["value"], "share", low=row["low"], high=row["high"]))
    assert "not identical: f16-decode" in said(app, "floors")


def test_rollouts_belong_to_no_panel(open_app: OpenApp, generated_store: Campaign) -> None:
    whole = open_app(generated_store.root)
    panels = whole.selectbox(key="control.scope").options
    app = whole.selectbox(key="control.scope").set_value(f"panel:{panels[1].split()[1].rstrip(':')}").run()
    assert not app.exception
    assert not {"exact", "prefix"} & set(columns(app, "Candidates"))
    assert "because prompts belong to no panel: equal in full and equal prefix" in table_html(app, "Candidates")


def test_a_generated_figure_sorts_and_is_plotted(open_app: OpenApp, generated_store: Campaign) -> None:
    app = open_app(generated_store.root, v="1", sort="invalid", plot="rollout.prefix/share")
    assert app.selectbox(key="control.sort").value == "invalid"
    (point,) = points(plotted(app))
    assert point["value"] == generated(generated_store, "q4_0", "rollout.prefix", "share")["value"]
    options = app.selectbox(key="control.plot").options
    assert "invalid futures (branches)" in options and "task passes (task.passed)" in options


def test_without_generation_its_columns_are_absent(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    assert columns(app, "Candidates") == ["flip", "mean", "p95", "p99", "worst", "strong", "answers"]
    assert "invalid futures" not in markup(app) and "Generation was bounded" not in markup(app)


def test_arms_are_grouped_under_a_heading_each_in_the_order_of_the_table(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, v="1", group="weights", sort="mean", order="desc")
    ungrouped = arms(open_app(invented_store.folder, v="1", sort="mean", order="desc"), "Candidates")
    found: dict[str, list[str]] = {}
    group = ""
    for row in Cells(table_html(app, "Candidates")).rows:
        group = row.get("data-group") or group
        if row.get("data-arm"):
            found.setdefault(group, []).append(row["data-arm"])
    expected: dict[str, list[str]] = {}
    for name in ungrouped:
        expected.setdefault(ARMS[name].weights, []).append(name)
    assert found == expected and list(found) == list(expected)
    assert "Weights f16" in table_html(app, "Candidates")


def test_only_facets_that_tell_arms_apart_can_be_grouped_by(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    control = app.selectbox(key="control.group")
    assert control.options == ["no facet", "Derivative", "Weights", "KV"]
    control.set_value("kv").run()
    assert app.query_params["group"] == "kv"
    by_engine = open_app(invented_store.folder, v="1", group="engine")
    assert by_engine.selectbox(key="control.group").value == "engine", "a link keeps what it says"
    assert "Engine llama_cpp (build 7)" in table_html(by_engine, "Candidates")


@pytest.mark.parametrize("plot", ["flip/rate", "kl.full/p95", "entropy.full.reference/mean"])
def test_any_figure_can_be_plotted_by_facet(plot: str, open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, v="1", group="derivative", plot=plot)
    spec, statistic = plot.split("/")
    found = {row["arm"]: row for row in points(plotted(app))}
    assert set(found) == {name for name, arm in ARMS.items() if arm.role in ("candidate", "follow-up")} - {"served"}
    for name, row in found.items():
        stored = invented_store.figure(name, spec, statistic, "with")
        assert (row["value"], row["low"], row["high"], row["n"]) == (
            stored["value"],
            stored["low"],
            stored["high"],
            stored["n"],
        )
        assert row["facet"] == ARMS[name].derivative
    assert app.query_params["plot"] == plot
    values = {name: row["value"] for name, row in found.items()}
    for name in (min(values, key=values.__getitem__), max(values, key=values.__getitem__)):
        assert f"({name})" in said(app, "plot")


def test_a_withheld_figure_is_hatched_and_named(open_app: OpenApp, invented_store: InventedStore) -> None:
    stored = invented_store.figure("q8_0", "kl.full", "p99.9", "with")
    assert stored["value"] is None or stored["state"] == "withheld"
    app = open_app(invented_store.folder, v="1", plot="kl.full/p99.9")
    spec = plotted(app)
    assert [part for part in spec["layer"] if part["mark"].get("shape") == HATCH]
    (row,) = [row for row in points(spec) if row["arm"] == "q8_0"]
    assert not row["drawn"] and stored["reason"] in row["why"]
    assert stored["reason"] in said(app, "plot") or "Withheld:" in said(app, "plot")


def test_a_plot_that_is_not_there_is_named(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, v="1", plot="bogus/<b>")
    assert "plot = bogus/&lt;b&gt; in the link does not exist here" in markup(app)
    assert app.query_params["plot"] == "kl.full/mean"


def test_size_against_drift_places_every_arm_or_says_why_not(open_app: OpenApp, generated_store: Campaign) -> None:
    app = open_app(generated_store.root)
    (record,) = generated_store.records()
    (arm,) = [arm for arm in record.arms if arm.arm == "q4_0"]
    assert f"On the front, smallest first: <b>q4_0 ({size_words(arm.weight_bytes)})</b>" in said(app, "sizes")
    (point,) = points(plotted(app, 1))
    assert point["bytes"] == arm.weight_bytes and point["front"] == "on the front"


def test_a_size_that_is_not_known_is_left_out_and_said(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    assert {row["arm"] for row in points(plotted(app, 1))} == set(arms(app, "Candidates")) | {"kv-bf16"}
    values = {row["arm"]: row["value"] for row in points(plotted(app, 1))}
    least = min(values, key=values.__getitem__)
    assert f"<b>{least} (100 MB)</b>" in said(app, "sizes"), "of equal sizes the one that drifts least"


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 B"), (999, "999 B"), (144_811_072, "145 MB"), (7_600_000_000, "7.6 GB"), (999_900_000, "1,000 MB")],
)
def test_sizes_have_three_digits(count: int, words: str) -> None:
    assert size_words(count) == words


def test_hardware_reads_without_its_features_unless_two_would_read_alike() -> None:
    one = "x86_64 NAME [avx avx2]; CPU : SSE3 = 1 | AVX = 1"
    other = "aarch64 NAME [neon]; CPU : NEON = 1"
    assert hardware_words([one, other]) == {one: "x86_64 NAME, CPU", other: "aarch64 NAME, CPU"}
    twin = "x86_64 NAME [avx]; CPU : SSE3 = 1"
    assert hardware_words([one, twin]) == {one: one, twin: twin}
    assert hardware_words(["", "cpu"]) == {"": "", "cpu": "cpu"}
