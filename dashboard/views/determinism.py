"""Determinism: does the machine give the same rows again, in the same process, in a fresh one, executed otherwise?"""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from dashboard.components.cells import table
from dashboard.components.determinism import determinism_csv
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.identity_lines import (
    EXPECTED_WORDS,
    KIND_SAYS,
    KIND_TITLES,
    KINDS,
    Line,
    kind_sentence,
    lines_of,
    sentence,
    settings_words,
)
from dashboard.components.launch_means import launch_means
from dashboard.components.markup import Html, tag
from dashboard.frame import Page, chip, open_page
from drift_runs.charts.determinism_grid import determinism_grid

SHOWN_WINDOWS = 60  # rows of the picture; the table below and its CSV have every window that differs
SHOWN_DIFFERENCES = 100
_GRID = pa.schema(
    [
        ("floor", pa.string()),
        ("window", pa.string()),
        ("rows", pa.int64()),
        ("rows_identical", pa.int64()),
        ("identical", pa.bool_()),
        ("first_difference", pa.int64()),
        ("expected", pa.string()),
        ("holds", pa.string()),
    ]
)


def show() -> None:
    page = open_page("Determinism")
    floors = sorted(page.arms("floor"), key=lambda arm: KINDS.index(arm.floor_kind) if arm.floor_kind in KINDS else 9)
    lines = lines_of(page, floors)
    first = [line for line in lines if line.outliers == page.sets[0]]
    st.html(tag("p", sentence(first), cls="dr-say"))
    if floors:
        _table(page, lines)
        _grid(page, first)
        _differences(page, lines)
    launch_means(page)


def _table(page: Page, lines: list[Line]) -> None:
    several = len(page.sets) > 1
    words = ["repeat", "the protocol expects", "does it hold?", "windows identical", "rows identical"]
    words += ["largest difference", "first difference"]
    head = [tag("th", word, scope="col") for word in words]
    if several:
        head.insert(1, tag("th", "outliers", scope="col"))
    body: list[Html] = []
    for kind in KINDS:
        here = [line for line in lines if line.arm.floor_kind == kind]
        said = kind_sentence([line for line in here if line.outliers == page.sets[0]]) or "none was run"
        title = [tag("b", KIND_TITLES[kind]), tag("span", f" {KIND_SAYS[kind]} {said}.", cls="dr-title")]
        body.append(tag("tr", tag("th", title, colspan=len(head), scope="colgroup", cls="dr-wrap"), data_kind=kind))
        body += [_row(page, line, several) for line in here]
    st.html(table("", head, body, label="Determinism"))
    csv_button(
        [
            {
                "floor": line.arm.arm,
                "kind": line.arm.floor_kind,
                "of": line.arm.reference or page.campaign.reference,
                "outliers": line.outliers,
                "expected": line.arm.rows_expected,
                "holds": line.holds,
                **determinism_csv(line.found),
                "row_hash": line.found.row_hash,
                "first_window": line.found.first_difference[0] if line.found.first_difference else None,
                "first_position": line.found.first_difference[1] if line.found.first_difference else None,
            }
            for line in lines
        ],
        name=f"{page.campaign.protocol_name}-determinism-{page.view.outliers}",
        key="determinism",
    )


def _row(page: Page, line: Line, several: bool) -> Html:
    found = line.found
    largest, of = line.largest
    mark = {"yes": chip("● holds", "within"), "no": chip("▲ does not hold", "above")}.get(line.holds)
    settings = settings_words(page, line.arm.arm)
    lead = tag(
        "th",
        line.arm.arm,
        tag("span", f"of {line.arm.reference or page.campaign.reference}", cls="dr-line dr-title"),
        tag("span", settings, cls="dr-line dr-title dr-wrap") if settings else None,
        scope="row",
    )
    where = [tag("span", "none", cls="dr-grey")]
    if found.first_difference:
        window, position = found.first_difference
        where = [tag("b", window), tag("span", f"position {position:,}", cls="dr-line dr-num")]
    unhashable = f"{found.rows_unhashable:,} unhashable, counted as not identical" if found.rows_unhashable else ""
    return tag(
        "tr",
        lead,
        [tag("td", line.outliers)] if several else [],
        tag("td", EXPECTED_WORDS.get(line.arm.rows_expected, line.arm.rows_expected or "not said")),
        tag("td", mark, tag("span", line.says.removeprefix("holds: "), cls="dr-line dr-wrap"), data_figure="holds"),
        tag(
            "td",
            f"{found.windows_identical:,} of {found.windows:,}",
            cls="dr-num",
            data_figure="windows_identical",
        ),
        tag(
            "td",
            f"{found.rows_identical:,} of {found.rows:,}",
            tag("span", found.row_hash, cls="dr-line dr-spec") if found.row_hash else None,
            tag("span", unhashable, cls="dr-line dr-small dr-wrap") if unhashable else None,
            cls="dr-num",
            data_figure="rows_identical",
        ),
        tag("td", largest, tag("span", of, cls="dr-line dr-small"), cls="dr-num", data_figure="largest"),
        tag("td", where, data_figure="first"),
        data_arm=line.arm.arm,
        data_outliers=line.outliers,
    )


def _grid(page: Page, lines: list[Line]) -> None:
    st.subheader("Windows by repeat", anchor=False)
    rows = [
        {
            "floor": line.arm.arm,
            **{name: row[name] for name in ("window", "rows", "rows_identical", "first_difference")},
            "identical": row["window_identical"],
            "expected": EXPECTED_WORDS.get(line.arm.rows_expected, "nothing"),
            # One window that is identical does not refute that some rows differ.
            "holds": "no"
            if line.holds == "no" and (line.arm.rows_expected == "differ") == row["window_identical"]
            else "",
        }
        for line in lines
        for row in line.table.to_pylist()
    ]
    order = [window.name for window in page.protocol.windows]
    there = {row["window"] for row in rows}
    differing = {row["window"] for row in rows if not row["identical"]}
    windows = sorted((name for name in order if name in there), key=lambda name: name not in differing)
    shown = set(windows[:SHOWN_WINDOWS])
    kept = [row for name in windows for row in rows if row["window"] == name and name in shown]
    if not kept:
        st.html(tag("p", "No window was compared.", cls="dr-say"))
        return
    said = f"{len(differing)} of {len(windows)} windows differ in some repeat."
    said += "" if len(windows) == len(shown) else f" The first {len(shown)} of {len(windows)} are drawn."
    st.html(tag("p", said, cls="dr-say"))
    # Every repeat keeps its column, in the order of the table, also where it did not run on the first window.
    names = [line.arm.arm for line in lines]
    kept.sort(key=lambda row: (windows.index(row["window"]), names.index(row["floor"])))
    shown_chart(
        determinism_grid(pa.Table.from_pylist(kept, schema=_GRID), floors=names),
        name=f"{page.campaign.protocol_name}-windows-identical",
        alt="Windows by repeat: a filled mark where every row is identical, a hollow one where some row differs",
    )
    st.html(
        tag(
            "p",
            "Filled: every row identical. Hollow: some row differs. Red with a cross: against what the protocol "
            "expects. No mark: the repeat did not run on that window.",
            cls="dr-key",
        )
    )


def _differences(page: Page, lines: list[Line]) -> None:
    rows = [
        {"outliers": line.outliers, **{name: value for name, value in row.items() if name != "window_hash"}}
        for line in lines
        for row in line.table.to_pylist()
        if not row["window_identical"]
    ]
    if not rows:
        return
    here = [row for row in rows if row["outliers"] == page.sets[0]]
    st.subheader("Where they part", anchor=False)
    head = [tag("th", word, scope="col") for word in ("repeat", "window", "first difference")]
    head += [tag("th", word, scope="col") for word in ("rows identical", "largest difference")]
    body = [
        tag(
            "tr",
            tag("th", row["arm"], scope="row"),
            tag("td", row["window"]),
            tag("td", f"position {row['first_difference']:,}", cls="dr-num"),
            tag("td", f"{row['rows_identical']:,} of {row['rows']:,}", cls="dr-num"),
            tag("td", _largest_of(row), cls="dr-num"),
            data_arm=row["arm"],
            data_window=row["window"],
        )
        for row in here[:SHOWN_DIFFERENCES]
    ]
    caption = f"{min(len(here), SHOWN_DIFFERENCES):,} of {len(here):,} windows that differ; the CSV has all."
    st.html(table(caption, head, body, label="Where they part"))
    csv_button(rows, name=f"{page.campaign.protocol_name}-windows-that-differ-{page.view.outliers}", key="differ")


def _largest_of(row: dict) -> str:
    for name, of in (("max_abs_dlogit", "logit"), ("max_abs_dlogprob", "log-probability")):
        if row[name] is not None:
            return f"{row[name] + 0.0:.3g} ({of})"
    return "not known"


show()
