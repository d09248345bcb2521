"""One HTML file that holds everything: tables, charts, style. It asks nothing of a network, and holds no script.

A policy in its head forbids both, so that a text in it that got past the escaping could still do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from drift_runs.charts import still
from drift_runs.report.content import Content
from drift_runs.report.grid import Cell, Grid, Picture, Row, Section
from drift_runs.report.markup import Html, tag
from drift_runs.report.style import SHEET

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
HALF_WIDTH_PX = 560
LONG_WORD_CHARACTERS = 24
"""A cell with a longer word may break it anywhere: it would make its table wider than the page."""


def document(content: Content, sections: Sequence[Section], *, made: str) -> str:
    """The file's text. ``made``: when and by what it was made, as it shall stand below it."""
    campaign = content.campaign
    title = campaign.title or campaign.protocol_name
    links = [tag("a", section.title, href=f"#{section.key}") for section in sections]
    head = tag(
        "header",
        tag("h1", title),
        tag(
            "p",
            tag("b", campaign.protocol_name),
            f" version {campaign.protocol_version}, digest ",
            tag("code", campaign.protocol_sha256, data_digest="protocol"),
            ", draft" if campaign.draft else ", frozen",
            ", imported" if campaign.imported else None,
            cls="digest",
        ),
        tag("nav", links, aria_label="Sections"),
    )
    body = tag("main", [_section(section) for section in sections])
    end = tag("footer", made)
    # The sheet is ours alone: escaping it would break it.
    style = Html(f"<style>{SHEET}</style>")
    meta = Html(
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width">'
    )
    whole = tag(
        "html",
        tag("head", meta, tag("title", f"Drift report: {title}"), style),
        tag("body", head, body, end),
        lang="en",
    )
    return f"<!doctype html>\n{whole}\n"


def _section(section: Section) -> Html:
    return tag(
        "section",
        tag("h2", section.title),
        [tag("p", sentence, cls="lead" if at == 0 else None) for at, sentence in enumerate(section.says)],
        tag("div", [_figure(section, picture) for picture in section.pictures], cls="pictures")
        if section.pictures
        else None,
        [_grid(grid) for grid in section.grids],
        id=section.key,
    )


def _figure(section: Section, picture: Picture) -> Html:
    prefix = f"{section.key}-{picture.name}-"
    # Built by the chart library from data that it escapes; parsed and written anew by inline_svg.
    drawn = Html(
        still.inline_svg(
            picture.chart,
            prefix=prefix,
            alt_text=picture.says,
            width_px=HALF_WIDTH_PX if picture.half else picture.width_px,
        )
    )
    return tag(
        "figure", tag("figcaption", picture.says), drawn, data_chart=picture.name, cls="half" if picture.half else None
    )


def _grid(grid: Grid) -> Html:
    head = tag("tr", [tag("th", word, scope="col") for word in grid.head])
    body = []
    before = ""
    for row, span in zip(grid.rows, _spans(grid.rows), strict=True):
        body.append(_row(row, same=bool(row.arm) and row.arm == before, span=span))
        before = row.arm
    return tag(
        "div",
        tag("h3", grid.title),
        tag("p", grid.says, cls="says") if grid.says else None,
        tag("div", tag("table", tag("thead", head), tag("tbody", body), aria_label=grid.title), cls="box"),
    )


def _spans(rows: Sequence[Row]) -> list[int]:
    """Beside how many rows each first cell stands: its own and those of the same arm below that leave theirs empty,
    which have 0."""
    spans: list[int] = []
    lead = 0
    for at, row in enumerate(rows):
        if at and row.arm and row.arm == rows[at - 1].arm and not row.cells[0].text:
            spans[lead] += 1
            spans.append(0)
        else:
            lead = at
            spans.append(1)
    return spans


def _row(row: Row, *, same: bool, span: int) -> Html:
    first, *rest = row.cells
    cells = [_cell("th", first, span) if span else None, *(_cell("td", cell) for cell in rest)]
    return tag(
        "tr",
        cells,
        data_arm=row.arm or None,
        data_outliers=row.outliers or None,
        cls="same" if same else None,
    )


def _cell(name: str, cell: Cell, span: int = 1) -> Html:
    small = [_line(line) for line in cell.small]
    value = tag("span", cell.text, cls="value") if cell.number else cell.text
    if cell.mark and small:
        small[-1] = tag("span", tag("span", cell.small[-1], cls=f"mark {cell.mark}"), cls="small")
    elif cell.mark:
        value = tag("span", cell.text, cls=f"mark {cell.mark}")
    long = any(len(word) > LONG_WORD_CHARACTERS for line in (cell.text, *cell.small) for word in line.split())
    kinds = [kind for kind, there in (("grey", cell.grey), ("number", cell.number), ("long", long)) if there]
    return tag(
        name,
        value,
        [[" ", line] for line in small],  # on paper they may stand on one line
        scope="row" if name == "th" else None,
        rowspan=span if span > 1 else None,
        data_figure=cell.figure or None,
        cls=" ".join(kinds) or None,
    )


def _line(line: str) -> Html:
    """A small line; an interval and a floor stay in one piece."""
    whole = line.startswith(("[", "floor ")) and len(line) <= LONG_WORD_CHARACTERS
    return tag("span", line, cls="small whole" if whole else "small")
