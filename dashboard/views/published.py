"""Published: what other people measured and published, as facts with their source. Never ranked with our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import data
from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag, visible
from dashboard.frame import chip, choose, control, open_bare
from drift_runs.errors import DriftError
from drift_runs.protocol.published import NO_ROWS

if TYPE_CHECKING:
    from drift_runs.protocol.published import Cell, Column, Failure, PublishedSource, Row, Table


def show() -> None:
    open_bare("Published results")
    st.html(
        tag(
            "p",
            "Results that other people published, each with its source and in words of our own. They are facts and not "
            "figures of this tool: none of them is ranked with a campaign, nor with another source. A column says "
            "whether the source published what it computed.",
            cls="dr-question",
        )
    )
    try:
        sources = data.published()
    except DriftError as error:
        st.html(tag("div", tag("b", "Published results cannot be read."), " ", error, cls="dr-notes", role="alert"))
        return
    if not sources:
        st.html(tag("p", "No published results come with this installation.", cls="dr-say"))
        return
    titles = {source.name: f"{source.title} ({source.date})" for source in sources}
    chosen = choose("source", list(titles))
    st.selectbox(f"Source ({len(sources)})", list(titles), format_func=titles.__getitem__, **control("source", chosen))
    _source(next(source for source in sources if source.name == chosen))


def _source(source: PublishedSource) -> None:
    st.html(
        tag(
            "div",
            tag("p", tag("b", source.source), f", {source.date}", cls="dr-say"),
            tag("p", source.subject, cls="dr-say"),
            tag("div", [tag("p", note) for note in source.notes], cls="dr-notes") if source.notes else None,
        )
    )
    for found in source.tables:
        _table(source, found)
    if source.failures:
        _failures(source)


def recomputable_chip(word: str) -> Html:
    """Whether anybody could compute it again."""
    if word == NO_ROWS:
        return chip("published, not recomputable", "warn", "Its rows are not public.")
    return chip("published, rows public", "plain", word)


def _table(source: PublishedSource, found: Table) -> None:
    st.subheader(found.title, anchor=False)
    rows_in = None if found.recomputable == NO_ROWS else f" {found.recomputable}"
    st.html(tag("p", recomputable_chip(found.recomputable), rows_in, " ", found.compared, cls="dr-say"))
    head = [tag("th", "", scope="col")] + [_column_head(column) for column in found.columns]
    body = [_row(found, row) for row in found.rows]
    st.html(table("", head, body, label=found.title))
    st.html(tag("div", [tag("p", note, cls="dr-key") for note in found.notes]) if found.notes else tag("span", ""))
    with st.expander("What each column is, as far as the source says"):
        lines = [
            tag("tr", tag("th", column.title, scope="row"), tag("td", _spec(column)), tag("td", column.definition))
            for column in found.columns
        ]
        heads = [tag("th", word, scope="col") for word in ("column", "definition", "what the source says")]
        st.html(table("", heads, lines, label=f"Columns of {found.title}"))
    csv_button(
        _csv_rows(source, found), name=f"published-{source.name}-{found.name}", key=f"{source.name}-{found.name}"
    )


def _column_head(column: Column) -> Html:
    unit = f", {column.unit}" if column.unit else ""
    return tag("th", f"{column.title}{unit}", tag("span", _spec(column), cls="dr-line"), scope="col")


def _spec(column: Column) -> Html:
    if not column.defined:
        return chip("definition not published", "warn", column.definition)
    statistic = f" {column.statistic}" if column.statistic else ""
    return tag("span", f"{column.spec}{statistic}", cls="dr-spec", title=column.definition)


def _row(found: Table, row: Row) -> Html:
    differs = row.recomputable and row.recomputable != found.recomputable
    marks = tag("span", recomputable_chip(row.recomputable), cls="dr-line") if differs else None
    note = tag("span", row.note, cls="dr-line dr-title dr-wrap") if row.note else None
    cells = []
    for column in found.columns:
        cell = row.cells.get(column.name)
        inside: object = tag("span", "not published", cls="dr-small") if cell is None else _cell(cell, column)
        cells.append(tag("td", inside, data_column=column.name))
    return tag("tr", tag("th", row.title, note, marks, scope="row"), cells, data_row=row.name)


def _cell(cell: Cell, column: Column) -> list[Html | None]:
    lines: list[Html | None] = []
    if cell.value is not None:
        words = f"{cell.qualifier} " if cell.qualifier else ""
        of = f" of {cell.of:,}" if cell.of is not None else ""
        suffix = " %" if column.unit == "%" else ""
        lines.append(tag("span", f"{words}{_exact(cell.value)}{suffix}{of}", cls="dr-line dr-value dr-num"))
    if cell.least is not None and cell.most is not None:
        lines.append(tag("span", f"{_exact(cell.least)} to {_exact(cell.most)}", cls="dr-line dr-value dr-num"))
    if cell.low is not None and cell.high is not None:
        lines.append(_small(f"[{_exact(cell.low)}, {_exact(cell.high)}]", cell.interval, number=True))
    lines.append(_small(f"n {cell.n:,}", number=True) if cell.n is not None else None)
    lines.append(tag("span", cell.text, cls="dr-line dr-wrap") if cell.text else None)
    lines.append(_small(cell.note) if cell.note else None)
    return lines


def _exact(value: float) -> str:
    """The digits as they were published: nothing is rounded."""
    return f"{value:,.0f}" if value == int(value) and abs(value) >= 1000 else f"{value:.12g}"


def _small(words: str, title: str = "", *, number: bool = False) -> Html:
    return tag("span", words, cls=f"dr-line dr-small {'dr-num' if number else 'dr-wrap'}", title=title or None)


def _csv_rows(source: PublishedSource, found: Table) -> list[dict[str, object]]:
    return [
        {
            "source": source.name,
            "table": found.name,
            "row": row.name,
            "column": column.name,
            "unit": column.unit,
            "spec": column.spec,
            "statistic": column.statistic,
            **row.cells[column.name].model_dump(),
            "recomputable": found.recomputable_row(row),
        }
        for row in found.rows
        for column in found.columns
        if column.name in row.cells
    ]


def _failures(source: PublishedSource) -> None:
    st.subheader("Published failures, token by token", anchor=False)
    st.html(tag("p", recomputable_chip(NO_ROWS), " as the source tells them.", cls="dr-say"))
    words = ("where", "arm", "expected", "got", "reference's token", "candidate's token", "what came of it")
    head = [tag("th", word, scope="col") for word in words]
    body = [
        tag(
            "tr",
            tag("th", item.where, scope="row"),
            tag("td", item.arm),
            tag("td", visible(item.expected), cls="dr-token"),
            tag("td", visible(item.got), cls="dr-token"),
            tag("td", _token(item.reference_token, item.reference_p)),
            tag("td", _token(item.candidate_token, item.candidate_p)),
            tag("td", item.consequence, cls="dr-wrap"),
        )
        for item in source.failures
    ]
    st.html(table("", head, body, label="Published failures"))
    csv_button(
        [_failure_fields(source, item) for item in source.failures],
        name=f"published-{source.name}-failures",
        key="failures",
    )


def _failure_fields(source: PublishedSource, item: Failure) -> dict[str, object]:
    return {"source": source.name, **item.model_dump()}


def _token(token: str, p: float | None) -> list[Html | None]:
    shown = tag("span", visible(token, spaces=True), cls="dr-token") if token else None
    return [shown, _small(f"p {p:.12g}", number=True) if p is not None else None]


show()
