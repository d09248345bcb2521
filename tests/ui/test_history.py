"""The page of history on a store with several campaigns of one protocol, written by the real tracker."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.figures import write_number
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import InventedStore, build_store

VIEW = "views/history.py"
ARMS = ("launch", "micro-batch", "q8_0", "q4_0")


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> list[InventedStore]:
    """Three comparable campaigns, the third with another engine and far more drift in one arm, and a draft."""
    folder = tmp_path_factory.mktemp("history")
    return [
        build_store(folder, arms=ARMS, key="first"),
        build_store(folder, arms=ARMS, key="second"),
        build_store(folder, arms=ARMS, key="third", engine="llama_cpp (build 8)", drift={"q8_0": 400.0}),
        build_store(folder, arms=ARMS, key="draft", draft=True),
    ]


def cell(html: str, campaign: str, arm: str) -> str:
    (found,) = [
        text
        for row, attributes, text in Cells(html).cells
        if row.get("data-campaign") == campaign and attributes.get("data-arm") == arm
    ]
    return found


def test_points_are_the_stored_figures_and_a_change_is_marked(
    campaigns: list[InventedStore], open_app: OpenApp
) -> None:
    app = open_app(campaigns[0].folder, VIEW, v="1", campaign=campaigns[0].campaign, plot="flip/rate")
    html = table_html(app, "History")
    for store in campaigns[:3]:
        for arm in ("q8_0", "q4_0"):
            row = store.figure(arm, "flip", "rate", "with")
            text = cell(html, store.campaign, arm)
            assert text.startswith(write_number(row["value"], "share", low=row["low"], high=row["high"]))
            assert f"n {row['n']:,}" in text
    assert "first" in cell(html, campaigns[0].campaign, "q8_0")
    assert "● within" in cell(html, campaigns[1].campaign, "q8_0")
    assert "▲ change above the floor" in cell(html, campaigns[2].campaign, "q8_0")
    assert "● within" in cell(html, campaigns[2].campaign, "q4_0")
    said = markup(app)
    assert "<b>q8_0</b> went up by" in said and "of 2 arms 1 moved so" in said


def test_what_changed_around_a_campaign_is_said_beside_it(campaigns: list[InventedStore], open_app: OpenApp) -> None:
    app = open_app(campaigns[0].folder, VIEW, v="1", campaign=campaigns[0].campaign)
    rows = Cells(table_html(app, "History")).cells
    changed = {
        row["data-campaign"]: text for row, attributes, text in rows if "dr-reasons" in (attributes.get("class") or "")
    }
    assert changed[campaigns[2].campaign] == "engine: llama_cpp (build 7) to llama_cpp (build 8)"
    assert changed[campaigns[1].campaign] == "nothing that is recorded"


def test_a_draft_stands_apart_and_is_counted(campaigns: list[InventedStore], open_app: OpenApp) -> None:
    app = open_app(campaigns[0].folder, VIEW, v="1", campaign=campaigns[0].campaign)
    assert "3 of 4 campaigns of <b>invented</b> are comparable" in markup(app)
    html = table_html(app, "Campaigns apart")
    rows = [row["data-campaign"] for row in Cells(html).rows if row.get("data-campaign")]
    assert rows == [campaigns[3].campaign] and "its protocol was not frozen" in html
    assert campaigns[3].campaign not in table_html(app, "History")


def test_side_by_side_has_a_history_of_each_set(campaigns: list[InventedStore], open_app: OpenApp) -> None:
    app = open_app(campaigns[0].folder, VIEW, v="1", campaign=campaigns[0].campaign, outliers="both", plot="flip/rate")
    tables = [item.proto.body for item in app.get("html") if 'aria-label="History"' in item.proto.body]
    assert len(tables) == 2
    for html, outliers in zip(tables, ("with", "without"), strict=True):
        row = campaigns[1].figure("q4_0", "flip", "rate", outliers)
        text = cell(html, campaigns[1].campaign, "q4_0")
        assert text.startswith(write_number(row["value"], "share", low=row["low"], high=row["high"]))


def test_one_campaign_says_what_makes_a_history(invented_store: InventedStore, open_app: OpenApp) -> None:
    app = open_app(invented_store.folder, VIEW)
    said = markup(app)
    assert "1 of 1 campaigns of <b>invented</b> are comparable" in said
    assert "A second one of the same protocol makes a history" in said
    assert "<code>drift run invented.toml</code>" in said
    assert len([row for row in Cells(table_html(app, "History")).rows if row.get("data-campaign")]) == 1


def test_a_store_of_drafts_has_no_line_and_says_how_one_begins(tmp_path: Path, open_app: OpenApp) -> None:
    store = build_store(tmp_path, arms=("launch", "q8_0"), draft=True)
    said = markup(open_app(store.folder, VIEW))
    assert "0 of 1 campaigns" in said and "drift freeze invented.toml" in said
    assert 'aria-label="History"' not in said


def test_a_protocol_that_is_not_there_is_replaced_with_a_note(invented_store: InventedStore, open_app: OpenApp) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", history="gone")
    assert "history = gone in the link does not exist here; showing invented." in markup(app)


@pytest.fixture(scope="module")
def travelling(tmp_path_factory: pytest.TempPathFactory) -> list[InventedStore]:
    """Own, travelled, own, travelled: on the other machine everything drifts far more, as it does there each time."""
    folder = tmp_path_factory.mktemp("travelling")
    first = build_store(folder, arms=ARMS, key="first")
    far = {"drift": {"q8_0": 400.0, "q4_0": 40.0}, "reference_run": first.campaign, "engine": "llama_cpp (build 9)"}
    return [
        first,
        build_store(folder, arms=ARMS, key="second", **far),
        build_store(folder, arms=ARMS, key="third"),
        build_store(folder, arms=ARMS, key="fourth", **far),
    ]


def test_a_reference_that_travelled_is_marked_with_its_reason_and_in_no_line_with_others(
    travelling: list[InventedStore], open_app: OpenApp
) -> None:
    app = open_app(travelling[0].folder, VIEW, v="1", campaign=travelling[0].campaign, plot="flip/rate")
    html = table_html(app, "History")
    second, third, fourth = (store.campaign for store in travelling[1:])
    assert cell(html, second, "q8_0").endswith("first"), "no change of the arm, however far the machines lie apart"
    assert "within" in cell(html, third, "q8_0") and "above the floor" not in cell(html, third, "q8_0")
    assert "within" in cell(html, fourth, "q8_0"), "against the one of the same rows"
    around = {
        row["data-campaign"]: text
        for row, attributes, text in Cells(html).cells
        if "dr-reasons" in (attributes.get("class") or "")
    }
    words = f"reference: the first shown with the rows of run {travelling[0].campaign[:8]}"
    assert around[second].startswith(words) and "between the two machines" in around[second]
    assert around[third] == around[fourth] == "nothing that is recorded"
    assert html.count("reference travelled") == 2
    said = markup(app)
    assert "2 of them are marked <b>reference travelled</b>" in said
    assert "Between the last two campaigns of the same reference none of 2 arms changed" in said
    assert "Hollow marks and dotted lines" in said


def test_the_newest_with_a_travelled_reference_has_nothing_before_it(tmp_path: Path, open_app: OpenApp) -> None:
    first = build_store(tmp_path, arms=ARMS, key="first")
    build_store(tmp_path, arms=ARMS, key="second", reference_run=first.campaign, drift={"q8_0": 400.0})
    said = markup(open_app(tmp_path, VIEW, v="1", campaign=first.campaign, plot="flip/rate"))
    assert "is the first shown with the rows of its reference: there is no change to look at" in said
    assert "above the floor; of" not in said


def test_without_a_travelled_reference_nothing_is_said_of_one(
    campaigns: list[InventedStore], open_app: OpenApp
) -> None:
    said = markup(open_app(campaigns[0].folder, VIEW, v="1", campaign=campaigns[0].campaign))
    assert "travelled" not in said
