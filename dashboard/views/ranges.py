"""Ranges: where an arm drifts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import streamlit as st

from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import figure_cell, header_cell, named_share, table
from dashboard.components.compared_arms import scored_arms, without_rows
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.markup import Html, tag
from dashboard.components.metric import metric_control, metric_label
from dashboard.components.range_text import range_text
from dashboard.figures import FLIP, Column, is_withheld, write_number, write_value
from dashboard.frame import Page, chip, control, open_page
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.charts.range_heatmap import range_heatmap, value_domain

if TYPE_CHECKING:
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

_CELL_SCHEMA = pa.schema(
    [
        ("arm", pa.string()),
        ("kind", pa.string()),
        ("value", pa.float64()),
        ("n", pa.int64()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("shown", pa.string()),
        ("verdict", pa.string()),
    ]
)


def show() -> None:
    page = open_page("Ranges")
    metric_control(page)
    arms = scored_arms(page)
    without_rows(page)
    if not arms:
        st.html(tag("p", "No arm passes the filters.", cls="dr-say"))
        return
    ranked = page.ranking().ranked
    apart = [arm.arm for arm in arms if arm.arm not in ranked]
    _heat_maps(page, [arm for arm in arms if arm.arm in ranked] or arms)
    if apart:
        st.html(tag("p", _apart(apart, everything=len(apart) == len(arms)), cls="dr-key"))
    _range_table(page, arms)


def _apart(names: list[str], *, everything: bool) -> str:
    """What the map does not hold, or why two of its arms must not be set against each other."""
    if everything:
        return "Not all is known that must be equal: read the map arm by arm, and rank none of them by it."
    return f"Not in the map, because not comparable with its arms (Overview says why): {', '.join(names)}."


def _table_columns(page: Page) -> tuple[Column, ...]:
    return (FLIP, page.columns.mean, page.columns.p95)


def _heat_maps(page: Page, arms: list[ArmRecord]) -> None:
    column = page.columns.of_metric(page.view.metric)
    st.subheader("Kinds of range by arm", anchor=False)
    tables = {outliers: cells(page, arms, outliers) for outliers in page.sets}
    everything = [row for each in tables.values() for row in each.to_pylist()]
    if not everything:
        why = "" if page.protocol.ranges else " The protocol has no ranges: the source names none."
        st.html(tag("p", f"No range kind was measured.{why}", cls="dr-say"))
        return
    st.html(tag("p", _sentence(everything, column.unit), cls="dr-say"))
    domain = value_domain(everything) if column.unit == "nats" else (0.0, max(0.01, _largest(everything)))
    unit = "nats" if column.unit == "nats" else "share of positions"
    for outliers, table_ in tables.items():
        differing = _kinds_with_outliers(page, column) if outliers == "with" else []
        marks = [chip("incl. outlier", "outlier"), f" in {', '.join(differing)}"] if differing else []
        st.html(tag("p", tag("b", OUTLIER_LABELS[outliers]), " ", marks, cls="dr-key"))
        shown_chart(
            range_heatmap(table_, title=f"{metric_label(page)}, {unit}", log=column.unit == "nats", domain=domain),
            name=f"{page.campaign.protocol_name}-range-kinds-{outliers}",
            alt=f"{metric_label(page)} by range kind and arm, {OUTLIER_LABELS[outliers]}",
            key=f"range-kinds-{outliers}",
        )
    st.html(
        tag(
            "p",
            "Full colour: firm. Greyed with a dashed edge: indicative, 10 to 99 values beyond the quantile. Dotted "
            "edge: withheld, fewer than 10. Ranges of a kind are pooled; n is the number of positions.",
            cls="dr-key",
        )
    )
    rows = [
        {**figure_fields(figure), "arm": arm}
        for outliers in page.sets
        for (arm, _), figure in page.book.by_scope(column, "kind", outliers).items()
        if arm in {record.arm for record in arms}
    ]
    csv_button(rows, name=f"{page.campaign.protocol_name}-range-kinds-{page.view.outliers}", key="kinds")


def cells(page: Page, arms: list[ArmRecord], outliers: str) -> pa.Table:
    """Cells of the heat map: every kind for every arm, also where nothing was measured."""
    column = page.columns.of_metric(page.view.metric)
    found = page.book.by_scope(column, "kind", outliers)
    kinds = page.book.scopes("kind")
    rows = []
    for kind in kinds:
        for arm in arms:
            figure = found.get((arm.arm, kind))
            rows.append(
                {
                    "arm": arm.arm if arm.role == "candidate" else f"{arm.arm} (follow-up)",
                    "kind": kind,
                    "value": None if figure is None or is_withheld(figure) else figure.value,
                    "n": figure.n if figure else 0,
                    "state": figure.state if figure else "withheld",
                    "reason": figure.reason if figure else "not measured",
                    "shown": write_value(figure, column.unit) if figure else "withheld",
                    "verdict": figure.verdict if figure else "",
                }
            )
    return pa.Table.from_pylist(rows, schema=_CELL_SCHEMA)


def _largest(rows: list[dict]) -> float:
    return max((row["value"] for row in rows if row["value"] is not None), default=0.0)


def _sentence(rows: list[dict], unit: str) -> list[object]:
    there = [row for row in rows if row["value"] is not None]
    if not there:
        return ["Every cell is withheld: too few positions."]
    worst = max(there, key=lambda row: row["value"])
    counts = [sum(row["state"] == name for row in rows) for name in ("firm", "indicative", "withheld")]
    suffix = " nats" if unit == "nats" else ""
    return [
        "The largest cell is ",
        tag("b", f"{worst['kind']} of {worst['arm']}"),
        f" with {worst['shown']}{suffix} (n {worst['n']:,}, {worst['state']}). "
        f"Cells: {counts[0]} firm, {counts[1]} indicative, {counts[2]} withheld.",
    ]


def _kinds_with_outliers(page: Page, column: Column) -> list[str]:
    with_, without = (page.book.by_scope(column, "kind", outliers) for outliers in ("with", "without"))
    return sorted({kind for (arm, kind), figure in with_.items() if _n(without.get((arm, kind))) != figure.n})


def _n(figure: Figure | None) -> int:
    return figure.n if figure else 0


def _range_table(page: Page, arms: list[ArmRecord]) -> None:
    names = [arm.arm for arm in arms]
    chosen = page.view.arm if page.view.arm in names else names[0]
    st.subheader("Every range of one arm", anchor=False)
    st.selectbox("Arm", names, **control("arm", chosen))
    _worst(page, chosen)
    _every_range(page, chosen)
    range_text(page, next(arm for arm in arms if arm.arm == chosen))


def _every_range(page: Page, chosen: str) -> None:
    if not page.protocol.ranges:
        st.html(tag("p", "There is no range to list.", cls="dr-say"))
        return
    sets = page.sets
    figures = {
        (outliers, column.key): page.book.by_scope(column, "range", outliers)
        for outliers in sets
        for column in _table_columns(page)
    }
    named = {
        figure.named
        for outliers in sets
        if (figure := page.book.by_arm(page.columns.worst, "all", outliers).get(chosen)) and figure.named
    }
    ranges = sorted(
        {scope for found in figures.values() for arm, scope in found if arm == chosen},
        key=lambda scope: -_sort_value(figures, sets, chosen, scope, page),
    )
    head = [tag("th", "range", scope="col")]
    head += [header_cell(column) for column in _table_columns(page)]
    head += [tag("th", "n", scope="col", cls="dr-right")]
    declared = _outlier_ranges(page)
    body, rows = [], []
    for scope in ranges:
        marks = [chip("worst range", "above")] if scope in named else []
        marks += [chip("outlier window", "outlier")] if scope in declared else []
        body.append(_range_row(page, scope, chosen, figures, marks))
        rows += [
            {"arm": chosen, **figure_fields(found[chosen, scope])}
            for found in figures.values()
            if (chosen, scope) in found
        ]
    st.html(
        table(
            f"{len(ranges)} ranges, largest {metric_label(page)} first. A figure without a mark is firm.",
            head,
            body,
            label="Ranges",
        )
    )
    csv_button(rows, name=f"{page.campaign.protocol_name}-ranges-{chosen}-{page.view.outliers}", key="ranges")


def _sort_value(figures: dict, sets: tuple[str, ...], arm: str, scope: str, page: Page) -> float:
    column = page.columns.of_metric(page.view.metric)
    for outliers in sets:
        figure = figures[outliers, column.key].get((arm, scope))
        if figure is not None and figure.value is not None:
            return figure.value
    return -1.0


def _outlier_ranges(page: Page) -> set[str]:
    windows = page.protocol.outlier_windows
    return {item.name for item in page.protocol.ranges if item.window in windows}


def _range_row(page: Page, scope: str, arm: str, figures: dict, marks: list[Html]) -> Html:
    # A range lies in one window: it has the same figures with and without outliers, or none without.
    sets = page.sets
    outliers = next((name for name in sets if (arm, scope) in figures[name, page.columns.p95.key]), sets[0])
    found = {column.key: figures[outliers, column.key].get((arm, scope)) for column in _table_columns(page)}
    n = max((figure.n for figure in found.values() if figure), default=0)
    return tag(
        "tr",
        tag("th", scope, _where(page, scope), tag("span", marks, cls="dr-line") if marks else None, scope="row"),
        [tag("td", figure_cell(found[column.key], column), data_figure=column.key) for column in _table_columns(page)],
        tag("td", f"{n:,}", cls="dr-num dr-right"),
        data_range=scope,
    )


def _where(page: Page, name: str) -> Html | None:
    """Kind, label and window of a range."""
    item = next((item for item in page.protocol.ranges if item.name == name), None)
    if item is None:
        return None
    label = f" ({item.label})" if item.label else ""
    return tag("span", f"{item.kind}{label}, {page.protocol.window(item.window).title}", cls="dr-line dr-title dr-wrap")


def _nats(value: float) -> str:
    return f"{write_number(value, 'nats', digits=2)} nats"


def _worst(page: Page, arm: str) -> None:
    lines = []
    for outliers in page.sets:
        figure = page.book.by_arm(page.columns.worst, "all", outliers).get(arm)
        if figure is None:
            continue
        if is_withheld(figure):
            said: list[object] = ["withheld: ", figure.reason]
        else:
            share = named_share(figure)
            share = f", the worst one in {share} of the resamples that hold it" if share else ""
            floor = "" if figure.floor_value is None else f"; the floor's largest is {_nats(figure.floor_value)}"
            value = f", {page.columns.headline} p95 {write_value(figure, 'nats')} nats, n {figure.n:,}"
            said = [tag("b", figure.named), value, share, floor]
        lines.append(tag("p", f"Worst range {OUTLIER_LABELS[outliers]}: ", said, cls="dr-say"))
    if lines:
        st.html(tag("div", lines))


show()
