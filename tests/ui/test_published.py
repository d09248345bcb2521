"""Published results: facts with their source, never ranked with anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.protocol.published import NO_ROWS, load_published
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import InventedStore

VIEW = "views/published.py"


def test_they_are_shown_with_no_store_at_all(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app(tmp_path / "nothing", VIEW)
    assert "Published results" in markup(app) and "none of them is ranked" in markup(app)
    assert app.selectbox(key="control.source").options
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("source", load_published(), ids=lambda source: source.name)
def test_every_source_shows_every_cell_and_says_what_is_known(source, open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app(tmp_path, VIEW, v="1", source=source.name)
    page = markup(app)
    assert Cells(page).tags.isdisjoint({"script", "img", "a", "iframe"})
    for table in source.tables:
        html = table_html(app, table.title)
        shown = {
            (row["data-row"], cell["data-column"]): text
            for row, cell, text in Cells(html).cells
            if row.get("data-row") and cell.get("data-column")
        }
        assert set(shown) == {(row.name, column.name) for row in table.rows for column in table.columns}
        for row in table.rows:
            for column in table.columns:
                cell = row.cells.get(column.name)
                if cell is None:
                    assert shown[row.name, column.name] == "not published"
                elif cell.value is not None and abs(cell.value) < 1000:
                    assert f"{cell.value:.12g}" in shown[row.name, column.name]
        unknown = [column for column in table.columns if not column.defined]
        assert html.count(">definition not published<") == len(unknown)
    if any(table.recomputable == NO_ROWS for table in source.tables):
        assert "published, not recomputable" in page
    assert len(app.get("download_button")) == len(source.tables) + bool(source.failures)


def test_a_source_that_does_not_exist_is_replaced_and_named(open_app: OpenApp, tmp_path: Path) -> None:
    app = open_app(tmp_path, VIEW, v="1", source="nobody")
    assert "source = nobody in the link does not exist here" in markup(app)
    assert app.query_params["source"] == load_published()[0].name


def test_no_published_number_is_on_a_page_of_figures(open_app: OpenApp, invented_store: InventedStore) -> None:
    titles = [table.title for source in load_published() for table in source.tables]
    page = markup(open_app(invented_store.folder))
    assert not [title for title in titles if title in page]


def test_the_campaign_of_the_view_is_kept_on_the_way_there_and_back(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, v="1", outliers="without", arm="q4_0")
    app.query_params.clear()
    app.switch_page(VIEW).run()
    assert app.query_params["campaign"] == invented_store.campaign
    app.query_params.clear()
    app.switch_page("views/measures.py").run()
    assert app.query_params["outliers"] == "without" and app.selectbox(key="control.arm").value == "q4_0"
