"""One reference on two machines, as a report tells it: two row stores, two processes, one tracking store or two."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from drift_runs.report import build, html, markdown
from drift_runs.report.content import Content, load_content
from drift_runs.report.figures import write_number
from drift_runs.report.files import write_csv
from drift_runs.report.grid import Grid, Section
from drift_runs.tracking.index import open_index
from drift_runs.tracking.records import CampaignRecord
from tests.campaigns import new_campaign
from tests.report.test_documents import Tags
from tests.test_reference_travels import LISTED, drift_run
from tests.ui.pair import Travelled, shared_pair

HEADLINE = "kl.topk-tail@8"
TITLE = "On other machines"
ARMS = ("q8_0", "q4_0", "kv-q4_0")


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Travelled:
    return shared_pair(tmp_path_factory, tiny_arms, empty_database)


def content_of(pair: Travelled, record: CampaignRecord, outliers: str = "with") -> Content:
    return load_content(pair.campaign.uri, record, outliers=outliers)


def section_of(content: Content) -> Section:
    (found,) = [section for section in build.sections(content) if section.key == "machines"]
    return found


def table(content: Content) -> Grid:
    (grid,) = section_of(content).grids
    return grid


def cell(grid: Grid, content: Content, arm: str, record: CampaignRecord, key: str, outliers: str = "with"):
    """A figure's cell; which machine a row is of stands in the first of its sets."""
    of = ""
    for row in grid.rows:
        of = row.cells[2].text or of
        if (row.arm, of, row.outliers) == (arm, record.run_id[:8], outliers):
            return next(cell for cell in row.cells if cell.figure == key)
    raise AssertionError((arm, record.run_id, key, outliers))


@pytest.mark.parametrize("outliers", ["with", "both"])
@pytest.mark.parametrize("which", ["first", "second"])
def test_each_figure_is_the_stored_one_and_who_took_the_reference_is_said(
    which: str, outliers: str, pair: Travelled
) -> None:
    content = content_of(pair, getattr(pair, which), outliers)
    grid = table(content)
    sets = content.sets
    assert len(grid.rows) == 7 * len(sets), "the reference's own arm once, three arms twice"
    for record in (pair.first, pair.second):
        for arm in ARMS if record is pair.first else ("f16-here", *ARMS):
            for of in sets:
                for key, spec, statistic, unit in (
                    ("flip", "flip", "rate", "share"),
                    ("mean", HEADLINE, "mean", "nats"),
                ):
                    stored = pair.summary(record, arm, spec, statistic, of)
                    wanted = write_number(stored["value"], unit, low=stored["low"], high=stored["high"])
                    assert cell(grid, content, arm, record, key, of).text == wanted
    said = {row.cells[2].text: row.cells[2].small for row in grid.rows if row.cells[2].text}
    assert said[pair.first.run_id[:8]][0] == "took the reference"
    assert said[pair.second.run_id[:8]][0] == f"compared with it: --reference {pair.first.run_id[:8]}"
    assert said[getattr(pair, which).run_id[:8]][1] == "this report's"
    assert all(row.cells[3].text.startswith("llama_cpp") for row in grid.rows if row.cells[2].text)


def test_whether_the_reference_gives_its_own_rows_again_is_counted(pair: Travelled) -> None:
    content = content_of(pair, pair.second)
    same = pair.summary(pair.second, "f16-here", "determinism", "rows.share")
    assert same["value"] == 1.0, "the premise: one machine took both"
    found = cell(table(content), content, "f16-here", pair.second, "rows_equal")
    assert (found.text, found.small) == (f"{same['n']:,} of {same['n']:,}", ("all",))
    others = [row.cells[-1].text for row in table(content).rows if row.arm != "f16-here"]
    assert others == ["-"] * 6
    assert f"{same['n']:,} of {same['n']:,} rows are the same to the byte" in " ".join(section_of(content).says)


def test_what_may_not_be_compared_has_its_reason_and_no_figure(pair: Travelled, tmp_path: Path) -> None:
    changes = [(pair.second, "q4_0", "drift.key.undeclared", '{"threads":9}')]
    changes += [(pair.second, "q8_0", "drift.weights_sha256", "cd" * 32)]
    changes += [(pair.second, "*", "drift.facet.hardware", "arm64 <b>A BOX</b>\x1b[31m [neon]; Metal : X = 1")]
    other = pair.changed(tmp_path / "copy", *changes)
    content = content_of(other, other.first)
    grid = table(content)
    why = {(row.arm, row.cells[2].text): row.cells[4].text for row in grid.rows if row.cells[4].text}
    two = other.second.run_id[:8]
    assert why.keys() == {("q4_0", two), ("q8_0", two)}
    assert "threads 9" in why["q4_0", two] and "another weight file (" in why["q8_0", two]
    for arm in ("q4_0", "q8_0"):
        assert cell(grid, content, arm, other.second, "mean").text == "not comparable"
        assert cell(grid, content, arm, other.first, "mean").number
    assert cell(grid, content, "kv-q4_0", other.second, "mean").number
    page = html.document(content, build.sections(content), made="")
    assert "A BOX" in page and "<b>A BOX" not in page and "\x1b" not in page
    text = markdown.document(content, build.sections(content), made="")
    assert "A BOX" in text and "<b>" not in text.replace("\\<b\\>", "") and "\x1b" not in text


def test_html_markdown_and_csv_hold_the_table(pair: Travelled, tmp_path: Path) -> None:
    content = content_of(pair, pair.second)
    sections = build.sections(content)
    tags = Tags(html.document(content, sections, made=""))
    assert "machines" in [found.get("id") for name, found in tags.found if name == "section"]
    grid = table(content)
    rows = [found for name, found in tags.found if name == "table" and found.get("aria-label") == grid.title]
    assert len(rows) == 1
    text = markdown.document(content, sections, made="")
    block = text.partition(f"## {TITLE}\n")[2].partition("\n## ")[0]
    assert len([line for line in block.splitlines() if line.startswith("|")]) == 2 + len(grid.rows)
    write_csv(tmp_path / "csv", content, sections)
    lines = (tmp_path / "csv" / "machines.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 7 * 2 + 1, "two figures a place, and the share of equal rows"


def test_a_campaign_that_nobody_compared_with_has_no_such_section(content: Content) -> None:
    assert content.machines is None
    assert "machines" not in [section.key for section in build.sections(content)]


def test_in_a_store_of_its_own_the_second_says_that_the_first_is_elsewhere(
    pair: Travelled, tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    alone = new_campaign(tmp_path / "alone", tiny_arms, empty_database, LISTED)
    run = drift_run(alone, "--reference", pair.first.run_id[:8], "--reference-uri", pair.campaign.uri)
    assert run.returncode == 0, run.stderr
    (record,) = open_index(alone.uri).campaigns()
    content = load_content(alone.uri, record, outliers="with")
    found = section_of(content)
    said = " ".join(found.says)
    assert "1 campaign of this protocol compares" in said
    assert f"by run {pair.first.run_id[:8]}, which is not in this store" in said
    assert f"On one machine only, and so not in the table: {', '.join(ARMS)}" in said
    assert [row.arm for row in table(content).rows] == ["f16-here"]
    by_name = {arm["arm"]: arm for arm in json.loads(run.stdout)["arms"]}
    rows = by_name["f16-here"]
    assert table(content).rows[0].cells[-1].text == f"{rows['rows_identical']:,} of {rows['rows']:,}"


def test_rows_that_differ_are_not_called_equal(pair: Travelled) -> None:
    """The figures of the second machine's decode floor, whose rows really differ, in the place of its own arm's."""
    content = content_of(pair, pair.second)
    assert content.machines is not None
    (decode,) = [
        place for place in content.machines.floors if (place.campaign, place.arm.arm) == (pair.second, "f16-decode")
    ]
    stored = pair.summary(pair.second, "f16-decode", "determinism", "rows.share")
    equal = round(stored["value"] * stored["n"])
    assert equal < stored["n"]
    places = tuple(
        replace(place, figures=decode.figures) if place.arm.arm == "f16-here" else place
        for place in content.machines.places
    )
    other = replace(content, machines=replace(content.machines, places=places))
    found = cell(table(other), other, "f16-here", pair.second, "rows_equal")
    assert (found.text, found.small) == (f"{equal:,} of {stored['n']:,}", ("some" if equal else "none",))
