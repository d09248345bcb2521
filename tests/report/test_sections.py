"""What a report says of the invented campaign: figures as stored, both sets side by side, and nothing left unsaid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drift_runs.errors import NotMeasured
from drift_runs.report import build, sound, where, written
from drift_runs.report.content import Content, find_campaign, load_content
from drift_runs.report.figures import write_interval, write_number
from drift_runs.report.grid import Grid, Section
from drift_runs.tracking.decisions import Decision, History
from tests.ui.synthetic import ARMS, FLOORS, OTHERS, OUTLIER, OUTLIER_REASON, InventedStore


def grid(sections: tuple[Section, ...], name: str) -> Grid:
    (found,) = [item for section in sections for item in section.grids if item.name == name]
    return found


def section(sections: tuple[Section, ...], key: str) -> Section:
    return next(found for found in sections if found.key == key)


def test_figures_are_the_stored_ones_with_and_without_outliers(
    sections: tuple[Section, ...], invented_store: InventedStore
) -> None:
    rows = {(row.arm, row.outliers): row for row in grid(sections, "candidates").rows}
    candidates = {name for name, arm in ARMS.items() if arm.role == "candidate"} - set(OTHERS)
    assert {arm for arm, _ in rows} == candidates
    for (arm, outliers), row in rows.items():
        cell = next(cell for cell in row.cells if cell.figure == "mean")
        stored = invented_store.figure(arm, "kl.full", "mean", outliers)
        assert cell.text == write_number(stored["value"], "nats", low=stored["low"], high=stored["high"])
        assert any(line.startswith("[") for line in cell.small)
        assert row.cells[-1].text == f"{stored['n']:,}"
    assert {outliers for _, outliers in rows} == {"with", "without"}


def test_an_arm_that_counts_a_declared_outlier_says_so(sections: tuple[Section, ...]) -> None:
    for row in grid(sections, "candidates").rows:
        assert ("incl. outlier" in row.cells[0].small) == (row.outliers == "with")


def test_a_panel_without_a_declared_window_stands_once(
    sections: tuple[Section, ...], content: Content, invented_store: InventedStore
) -> None:
    panels = grid(sections, "panels")
    sets: dict[tuple[str, str], list[str]] = {}
    for row in panels.rows:
        sets.setdefault((row.cells[0].text, row.arm), []).append(row.cells[2].text)
    touched = {window.panel for window in content.protocol.windows if window.name == OUTLIER}
    untouched = {panel.name for panel in content.protocol.panels} - touched
    assert touched and untouched
    for (panel, _), found in sets.items():
        assert found == (["with", "without"] if panel in touched else ["none declared"])
    for panel in untouched:  # the premise: there both sets are the same positions
        both = [
            invented_store.figure("q4_0", "kl.full", "mean", outliers, "panel", panel)["value"]
            for outliers in ("with", "without")
        ]
        assert both[0] == both[1]
    assert {field["outliers"] for field in panels.fields} == {"with", "without"}, "the CSV file has both"


def test_what_may_not_be_ranked_stands_apart_with_its_reason(sections: tuple[Section, ...]) -> None:
    apart = grid(sections, "not-comparable")
    assert {row.arm for row in apart.rows} == set(OTHERS)
    why = apart.head.index("why not")
    assert "reference" in apart.rows[0].cells[why].text
    assert not set(OTHERS) & {row.arm for row in grid(sections, "candidates").rows}


def test_every_withheld_figure_is_counted_with_its_reason(sections: tuple[Section, ...], content: Content) -> None:
    table = content.tables["figures"].to_pylist()
    wanted = [row for row in table if row["outliers"] in content.sets and row["value"] is None]
    found = section(sections, "withheld")
    (listed,) = found.grids
    assert len(listed.fields) == len(wanted) > 0
    assert f"{len(wanted):,} figures were withheld" in found.says[0]
    assert all(row["reason"] for row in listed.fields)


def test_identities_hold_digests_and_what_was_observed(sections: tuple[Section, ...], content: Content) -> None:
    fields = {row["arm"]: row for row in grid(sections, "arms").fields}
    assert set(fields) == set(ARMS)
    assert fields["q4_0"]["weights in the file"] == "q4_0, norms f32"
    for arm in content.campaign.arms:
        assert fields[arm.arm]["weights SHA-256"] == content.facts.weights_sha256[arm.run_id]
    digest = {row.cells[0].text: row.cells[1].text for row in grid(sections, "protocol").rows}["protocol digest"]
    assert digest == content.campaign.protocol_sha256


def test_the_declared_outlier_has_its_reason(sections: tuple[Section, ...]) -> None:
    assert [[cell.text for cell in row.cells] for row in grid(sections, "outliers").rows] == [[OUTLIER, OUTLIER_REASON]]


def test_one_set_is_given_where_one_is_asked_for(invented_store: InventedStore, content: Content) -> None:
    alone = load_content(invented_store.uri, content.campaign, outliers="without")
    grids = [found for section in build.sections(alone) for found in section.grids]
    assert {row.outliers for found in grids if found.name != "ranges" for row in found.rows} <= {"", "without"}


def test_floors_promise_and_keep_identical_rows(sections: tuple[Section, ...]) -> None:
    rows = {row.arm: row for row in grid(sections, "determinism").rows if row.outliers == "with"}
    assert set(FLOORS) <= set(rows)
    cell = next(cell for cell in rows["launch"].cells if cell.figure == "rows_identical")
    same, _, of = cell.text.partition(" of ")
    assert same == of != "0"


def test_a_refuted_promise_is_said(content: Content) -> None:
    broken = tuple(
        replace(arm, rows_expected="identical") if arm.arm == "micro-batch" else arm for arm in content.campaign.arms
    )
    said = sound.determinism(replace(content, campaign=replace(content.campaign, arms=broken)))
    assert said.says[0] == "Refuted: micro-batch should give identical rows and does not."


def test_the_worst_kind_of_range_is_the_largest_cell(content: Content) -> None:
    said = where.ranges(content).says[0]
    rows = [
        row
        for row in content.tables["figures"].to_pylist()
        if (row["scope_kind"], row["spec"], row["statistic"], row["outliers"]) == ("kind", "kl.full", "p95", "with")
        and ARMS[row["arm"]].role in ("candidate", "follow-up")
        and row["value"] is not None
    ]
    worst = max(rows, key=lambda row: row["value"])
    assert said.startswith(f"The largest kind of range is {worst['scope']} of {worst['arm']} ")


def test_a_campaign_without_generation_says_so_and_what_to_run(content: Content) -> None:
    for said in (written.branches(content), written.rollouts_and_tasks(content)):
        assert "Nothing was written freely" in said.says[0] and "[branches]" in said.says[0]
        assert not said.grids


def test_decisions_stand_with_everything_that_was_decided_before(content: Content) -> None:
    entries = tuple(
        Decision(arm="q4_0", run_id="r", number=number, decision=decision, reason=reason, name="n", time_ms=0, view="")
        for number, decision, reason in ((1, "needs more", "one panel"), (2, "rejected", "<b>worse</b>"))
    )
    found = sound.decisions(replace(content, decisions=History(entries, ("q4_0: tag",))))
    now, before = found.grids
    assert {row.arm: row.cells[1].text for row in now.rows}["q4_0"] == "rejected"
    assert {row.arm: row.cells[1].text for row in now.rows}["q8_0"] == "open"
    assert [row.cells[1].text for row in before.rows] == ["needs more", "rejected"]
    assert [row["reason"] for row in before.fields] == ["one panel", "<b>worse</b>"]
    assert "q4_0: tag" in found.says[1]


def test_an_interval_stands_as_a_page_writes_it(sections: tuple[Section, ...], content: Content) -> None:
    figure = content.figure("q4_0", content.columns.mean, "with")
    assert figure is not None
    row = next(row for row in grid(sections, "candidates").rows if (row.arm, row.outliers) == ("q4_0", "with"))
    cell = next(cell for cell in row.cells if cell.figure == "mean")
    assert write_interval(figure, "nats") in cell.small


@pytest.mark.parametrize("wanted", ["latest", "invented"])
def test_a_campaign_is_found(invented_store: InventedStore, wanted: str) -> None:
    assert find_campaign(invented_store.uri, wanted).run_id == invented_store.campaign


def test_a_campaign_is_found_by_the_beginning_of_its_id(invented_store: InventedStore) -> None:
    assert find_campaign(invented_store.uri, invented_store.campaign[:6]).run_id == invented_store.campaign
    with pytest.raises(NotMeasured, match="one of invented"):
        find_campaign(invented_store.uri, "zz")
