"""One reference on two machines: the overview sets them side by side, and says what came from where."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.figures import write_number
from drift_runs.report.build import report_html
from drift_runs.tracking.index import open_index
from drift_runs.tracking.records import CampaignRecord
from tests.ui.conftest import OpenApp
from tests.ui.pair import Travelled
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import InventedStore, build_store

LABEL = "On other machines"
HEADLINE = "kl.topk-tail@8"
COLUMNS = {"flip": ("flip", "rate", "share"), "mean": (HEADLINE, "mean", "nats"), "p95": (HEADLINE, "p95", "nats")}
OTHER_BOX = "arm64 A BOX [neon]; Metal : EMBED_LIBRARY = 1"


def open_pair(open_app: OpenApp, pair: Travelled, record: CampaignRecord, **query: str) -> AppTest:
    return open_app(pair.root, v="1", campaign=record.run_id, **query)


def cells(app: AppTest) -> dict[tuple[str, str, str, str], str]:
    """Text of each figure's cell by arm, campaign, set of windows and figure."""
    return {
        (row["data-arm"], row["data-campaign"], row["data-outliers"], attributes["data-figure"]): text
        for row, attributes, text in Cells(table_html(app, LABEL)).cells
        if attributes.get("data-figure")
    }


def rows(app: AppTest) -> list[tuple[str, str]]:
    """Arm and campaign of each row, in order."""
    found = [row for row in Cells(table_html(app, LABEL)).rows if row.get("data-arm")]
    return list(dict.fromkeys((row["data-arm"], row["data-campaign"]) for row in found))


def said(app: AppTest, name: str) -> str:
    (found,) = [item.proto.body for item in app.get("html") if f'data-say="{name}"' in item.proto.body]
    return found


def charts(app: AppTest) -> list[str]:
    ids = [button.proto.id for button in app.get("download_button")]
    return [name.rpartition("svg.")[2] for name in ids if "svg.machines" in name]


@pytest.mark.parametrize("outliers", ["with", "both"])
@pytest.mark.parametrize("which", ["first", "second"])
def test_every_figure_is_the_indexs(outliers: str, which: str, open_app: OpenApp, travelled: Travelled) -> None:
    app = open_pair(open_app, travelled, getattr(travelled, which), outliers=outliers)
    found = cells(app)
    sets = ("with", "without") if outliers == "both" else ("with",)
    assert len(found) == 7 * len(sets) * 4, "the reference's own arm once, three arms twice; n too"
    for (arm, run_id, of, key), text in found.items():
        record = travelled.first if run_id == travelled.first.run_id else travelled.second
        if key == "n":
            assert text.startswith(f"{travelled.summary(record, arm, HEADLINE, 'mean', of)['n']:,}")
            continue
        spec, statistic, unit = COLUMNS[key]
        row = travelled.summary(record, arm, spec, statistic, of)
        if row["value"] is None or row["state"] == "withheld":
            assert text == f"withheld {row['reason']}"
        else:
            assert text.startswith(write_number(row["value"], unit, low=row["low"], high=row["high"]))
            low = write_number(row["low"], unit, low=row["low"], high=row["high"], bare=True)
            assert f"[{low}, " in text


def test_arms_are_together_with_the_reference_first_and_each_campaign_is_linked(
    open_app: OpenApp, travelled: Travelled
) -> None:
    app = open_pair(open_app, travelled, travelled.second)
    one, two = travelled.first.run_id, travelled.second.run_id
    arms = ("q8_0", "q4_0", "kv-q4_0")
    assert rows(app) == [("f16-here", two), *((arm, run) for arm in arms for run in (one, two))]
    html = table_html(app, LABEL)
    assert f"campaign={one}" in html and f"campaign={two}" in html and "took the reference" in html
    assert "machines" in [button.proto.id.rpartition("csv.")[2] for button in app.get("download_button")]
    assert charts(app) == ["machines-mean-with", "machines-flip-with"]
    assert charts(open_pair(open_app, travelled, travelled.second, outliers="both"))[1] == "machines-mean-without"


def test_how_far_the_other_machine_lies_is_said_from_the_figures(open_app: OpenApp, travelled: Travelled) -> None:
    app = open_pair(open_app, travelled, travelled.first)
    mean = travelled.summary(travelled.second, "f16-here", HEADLINE, "mean")
    same = travelled.summary(travelled.second, "f16-here", "determinism", "rows.share")
    words = said(app, "machine")
    assert f"by {HEADLINE} mean, {write_number(mean['value'], 'nats')} nats" in words
    assert f"over {mean['n']:,} positions" in words
    assert f"{round(same['value'] * same['n']):,} of {same['n']:,} rows are the same to the byte" in words
    decode = travelled.summary(travelled.first, "f16-decode", HEADLINE, "mean")
    assert f"f16-decode {write_number(decode['value'], 'nats', digits=2)}" in said(app, "repeats")
    assert "of each of 3 arms is the same on every machine" in said(app, "between")
    assert "hardware reads alike" in markup(app), "both ran on one machine here"


def test_another_machine_has_its_own_name_and_the_engines_difference_is_said(
    open_app: OpenApp, travelled: Travelled, tmp_path: Path
) -> None:
    changes = [(travelled.second, "*", "drift.facet.hardware", OTHER_BOX)]
    changes += [(travelled.second, "*", "drift.facet.engine", "llama_cpp (another build)")]
    pair = travelled.changed(tmp_path / "copy", *changes)
    app = open_pair(open_app, pair, pair.first)
    assert "On <b>arm64 A BOX, Metal</b> f16 lies" in said(app, "machine")
    text = markup(app)
    assert "reads alike" not in text and "not the hardware alone" in text
    assert "llama_cpp (another build)" in table_html(app, LABEL)
    # The second one's own page does not take its floors' machine for the reference's.
    app = open_pair(open_app, pair, pair.second)
    own = table_html(app, "Candidates")
    assert own.count('data-facet="hardware"') == own.count('data-facet="engine"') == 4
    assert "hardware arm64" not in own.split("</p>")[0]


def test_what_may_not_be_set_against_the_first_says_why_and_is_in_no_sentence(
    open_app: OpenApp, travelled: Travelled, tmp_path: Path
) -> None:
    changes = [(travelled.second, "q4_0", "drift.key.undeclared", '{"threads":9}')]
    changes += [(travelled.second, "q8_0", "drift.weights_sha256", "cd" * 32)]
    pair = travelled.changed(tmp_path / "copy", *changes)
    app = open_pair(open_app, pair, pair.first)
    why = {
        (row["data-arm"], row["data-campaign"]): text
        for row, attributes, text in Cells(table_html(app, LABEL)).cells
        if "dr-reasons" in (attributes.get("class") or "") and text
    }
    assert why.keys() == {("q4_0", pair.second.run_id), ("q8_0", pair.second.run_id)}
    assert "threads 9" in why["q4_0", pair.second.run_id]
    assert (
        "another weight file" in why["q8_0", pair.second.run_id] and "cdcdcdcdcdcd" in why["q8_0", pair.second.run_id]
    )
    assert "of each of 1 arm is the same" in said(app, "between")


def test_nothing_is_drawn_where_no_other_machine_shares_the_reference(
    open_app: OpenApp, invented_store: InventedStore, tmp_path: Path
) -> None:
    assert LABEL not in markup(open_app(invented_store.folder))
    arms = ("launch", "micro-batch", "q8_0")
    stores = [build_store(tmp_path, arms=arms, key=key) for key in ("one", "two")]
    index = open_index(stores[0].uri)
    one, two = index.campaigns()
    premise = "one machine took the same rows for both"
    assert one.reference_capture_id == two.reference_capture_id and index.sharing(one) == (), premise
    assert LABEL not in markup(open_app(tmp_path))


def test_the_index_names_what_shares_a_reference(travelled: Travelled) -> None:
    index = open_index(travelled.campaign.uri)
    assert index.sharing(travelled.second) == index.sharing(travelled.first) == (travelled.first, travelled.second)
    assert travelled.second.reference_run == travelled.first.run_id


@pytest.mark.parametrize("which", ["first", "second"])
def test_protocol_and_report_say_where_the_reference_came_from(
    which: str, open_app: OpenApp, travelled: Travelled
) -> None:
    record = getattr(travelled, which)
    page = markup(open_app(travelled.root, "views/protocol.py", v="1", campaign=record.run_id))
    report = report_html(travelled.campaign.uri, record, outliers="with", now_ms=0)
    words = f"The rows of the reference f16 came from run {travelled.first.run_id}"
    for text in (page, report):
        assert (words in text) == ("no floor of the reference, and no verdict" in text) == (which == "second")
    if which == "second":
        assert f"campaign={travelled.first.run_id}" in page
        assert f"taken by run {travelled.first.run_id[:8]}" in page
        assert f"run {travelled.first.run_id}" in report and "reference taken by" in report
