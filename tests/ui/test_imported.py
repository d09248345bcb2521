"""Campaigns of other tools' files: every page copes with what a source does not give, and says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from dashboard.figures import write_number
from drift_runs.cli.main import main
from drift_runs.tracking.reader import list_campaigns, load_figures
from drift_runs.tracking.records import CampaignRecord
from drift_runs.tracking.uris import resolve_uri
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, arms, figure_text, markup, table_html

FILES = Path(__file__).parents[1] / "data" / "imports"
VIEWS = ("overview", "measures", "ranges", "rows", "compare", "outliers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A store and its campaigns by name."""

    folder: Path
    uri: str
    campaigns: dict[str, CampaignRecord]

    def figure(self, campaign: str, arm: str, spec: str, statistic: str) -> dict:
        record = next(found for found in self.campaigns[campaign].arms if found.arm == arm)
        (row,) = [
            row
            for row in load_figures(self.uri, record.run_id).to_pylist()
            if (row["scope_kind"], row["outliers"], row["spec"], row["statistic"]) == ("all", "with", spec, statistic)
        ]
        return row


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """One store with an import of each kind of source."""
    folder = tmp_path_factory.mktemp("imported")
    commands = {
        "rows": f"topk-rows --reference a={FILES}/topk-rows-a.json --reference other={FILES}/topk-rows-b.json "
        f"--candidate b={FILES}/topk-rows-b.json --candidate served={FILES}/topk-rows-a.json --against served=other",
        "rollouts": f"rollouts --reference a={FILES}/rollouts-a.json --candidate b={FILES}/rollouts-b.json",
        "contexts": f"contexts --reference bf16 --candidate a={FILES}/contexts-a.json "
        f"--candidate b={FILES}/contexts-b.json",
    }
    for name, options in commands.items():
        assert main(["import", *options.split(), "--name", name, "--store", str(folder)]) == 0, name
    uri = resolve_uri(None, folder)
    return Imported(folder=folder, uri=uri, campaigns={found.protocol_name: found for found in list_campaigns(uri)})


def open_campaign(open_app: OpenApp, imported: Imported, campaign: str, view: str = "overview", **query: str):
    run_id = imported.campaigns[campaign].run_id
    return open_app(imported.folder, f"views/{view}.py", v="1", campaign=run_id, **query)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("campaign", ["rows", "rollouts", "contexts"])
def test_every_page_opens_and_says_that_the_rows_are_imported(
    campaign: str, view: str, open_app: OpenApp, imported: Imported
) -> None:
    app = open_campaign(open_app, imported, campaign, view, outliers="both")
    page = markup(app)
    assert ">imported<" in page and "What the source says and does not say" in page
    for note in imported.campaigns[campaign].notes:
        assert note.split(":")[0].replace("'", "&#x27;") in page
    assert app.segmented_control(key="control.outliers").disabled, (
        "no window is declared, so there is nothing to choose"
    )
    assert 'data-outliers="without"' not in page


def test_the_headline_of_best_k_rows_carries_its_k(open_app: OpenApp, imported: Imported) -> None:
    app = open_campaign(open_app, imported, "rows")
    spec = next(arm for arm in imported.campaigns["rows"].arms if arm.arm == "b").key["spec"]
    assert spec.startswith("kl.topk-shared@")
    row = imported.figure("rows", "b", spec, "mean")
    shown = write_number(row["value"], "nats", low=row["low"], high=row["high"])
    assert figure_text(app, "Candidates", "b", "mean").startswith(shown)
    assert f">{spec}<" in table_html(app, "Candidates") and ">kl.full<" not in table_html(app, "Candidates")


def test_an_arm_of_another_reference_is_not_ranked(open_app: OpenApp, imported: Imported) -> None:
    app = open_campaign(open_app, imported, "rows")
    assert arms(app, "Candidates") == ["b"] and arms(app, "Not comparable with these") == ["served"]
    assert "against other" in table_html(app, "Not comparable with these")


def test_definitions_that_the_rows_do_not_allow_say_why(open_app: OpenApp, imported: Imported) -> None:
    table = table_html(open_campaign(open_app, imported, "rows", "measures", arm="b"), "Divergence in all its forms")
    texts = {row["data-spec"]: text for row, cell, text in Cells(table).cells if cell.get("colspan")}
    assert set(texts) == {"kl.full", "js.full"}
    assert all("it needs all of the dictionary" in text for text in texts.values())


def test_the_page_of_rollouts_has_the_readings_of_imported_ones_and_says_that_texts_are_not_kept(
    open_app: OpenApp, imported: Imported
) -> None:
    app = open_campaign(open_app, imported, "rollouts", "rollouts")
    row = imported.figure("rollouts", "b", "rollout.prefix", "share")
    text = figure_text(app, "Rollouts", "b", "prefix")
    assert text.startswith(write_number(row["value"], "share", low=row["low"], high=row["high"]))
    said = markup(app)
    assert "an import keeps the figures of continuations and not what was written" in said
    assert "No tasks: the imported files hold none." in said


def test_rollouts_lead_where_there_is_no_divergence(open_app: OpenApp, imported: Imported) -> None:
    app = open_campaign(open_app, imported, "rollouts", sort="mean")
    for key, spec in (("exact", "rollout.exact"), ("prefix", "rollout.prefix"), ("agree", "rollout.agree")):
        row = imported.figure("rollouts", "b", spec, "share")
        shown = write_number(row["value"], "share", low=row["low"], high=row["high"])
        assert figure_text(app, "Candidates", "b", key).startswith(shown)
    assert "kl.full" not in table_html(app, "Candidates") and app.get("vega_lite_chart") == []
    measures = open_campaign(open_app, imported, "rollouts", "measures")
    assert "equal prefix" in table_html(measures, "Rollouts")
    steps = [row for row in Cells(table_html(measures, "First difference")).rows if row.get("data-step")]
    assert steps


def test_means_by_context_withhold_quantiles_and_positions(open_app: OpenApp, imported: Imported) -> None:
    app = open_campaign(open_app, imported, "contexts", "measures", arm="a")
    table = table_html(app, "Divergence in all its forms")
    row = imported.figure("contexts", "a", "kl.full", "p95")
    assert row["value"] is None and row["reason"] in table
    assert "Not known: the source gives no positions." in markup(app)
    pairs = table_html(open_campaign(open_app, imported, "contexts", "compare"), "Pairs")
    assert "contexts with left above" in pairs and "McNemar" not in pairs
    assert "the source gives no positions" in markup(open_campaign(open_app, imported, "contexts", "rows"))
    assert "the source names none" in markup(open_campaign(open_app, imported, "contexts", "ranges"))


def test_what_a_file_says_of_itself_is_not_a_setting(open_app: OpenApp, imported: Imported) -> None:
    assert "settings" not in [
        text for _, _, text in Cells(table_html(open_campaign(open_app, imported, "rows"), "Candidates")).cells
    ]
    app = open_campaign(open_app, imported, "rows", "measures", arm="b")
    assert 'aria-label="Source facts"' in markup(app)
