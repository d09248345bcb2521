"""Reads the pages' own markup the way a browser would: rows, cells and text."""

from __future__ import annotations

from html.parser import HTMLParser

from streamlit.testing.v1 import AppTest


class Cells(HTMLParser):
    """Cells of every table: (attributes of the row, attributes of the cell, text)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[dict[str, str | None]] = []
        self.cells: list[tuple[dict, dict, str]] = []
        self.tags: set[str] = set()
        self._text: list[str] | None = None
        self._attributes: dict = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append(dict(attrs))
        elif tag in ("td", "th"):
            self._text, self._attributes = [], dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._text is not None:
            self.cells.append((self.rows[-1], self._attributes, " ".join(" ".join(self._text).split())))
            self._text = None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)


def markup(app: AppTest) -> str:
    """All markup of the page, one piece a line."""
    return "\n".join(item.proto.body for item in app.get("html"))


def table_html(app: AppTest, label: str) -> str:
    (found,) = [item.proto.body for item in app.get("html") if f'aria-label="{label}"' in item.proto.body]
    return found


def arms(app: AppTest, label: str) -> list[str]:
    """Arms of a table in the order of its rows."""
    rows = Cells(table_html(app, label)).rows
    return list(dict.fromkeys(row["data-arm"] for row in rows if row.get("data-arm")))


def figure_text(app: AppTest, label: str, arm: str, figure: str, outliers: str | None = None) -> str:
    """Text of one figure's cell."""
    found = [
        text
        for row, cell, text in Cells(table_html(app, label)).cells
        if row.get("data-arm") == arm
        and cell.get("data-figure") == figure
        and outliers in (None, row.get("data-outliers"), cell.get("data-outliers"))
    ]
    assert len(found) == 1, f"{len(found)} cells for {arm} {figure} {outliers}"
    return found[0]
