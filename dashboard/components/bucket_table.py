"""One figure by history, depth or quarter: every arm's, as a picture and as a table, with coverage where sampled."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import streamlit as st

from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import figure_cell, table
from dashboard.components.compared_arms import Compared, arm_cell
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.markup import Html, tag
from dashboard.figures import Column, is_withheld, write_number, write_value
from drift_runs.charts.bucket_arms import bucket_arms
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.measure.coverage import SPEC, STATISTIC

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure

_SCHEMA = pa.schema(
    [
        ("bucket", pa.string()),
        ("arm", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("floor_value", pa.float64()),
        ("coverage", pa.float64()),
    ]
)
_COVERAGE = Column(key="coverage", header="coverage", spec=SPEC, statistic=STATISTIC, unit="share")
Figures = dict[tuple[str, str], "Figure"]


def by_bucket(page: Page, arms: Compared, column: Column, kind: str, *, title: str, first: str, says: str) -> None:
    """A heading, what is seen, a chart for each set of windows, and one table of all arms.

    ``kind``: scope kind; ``first`` names what the buckets are of.
    """
    found = {outliers: page.book.by_scope(column, kind, outliers) for outliers in page.sets}
    names = {arm.arm for arm in arms.listed}
    buckets = [scope for scope in page.book.scopes(kind) if _has(found, names, scope)]
    st.subheader(title, anchor=False)
    if not buckets:
        why = "the source gives no positions" if not page.has_positions else "no figure of this kind was measured"
        st.html(tag("p", f"Not known: {why}.", cls="dr-say"))
        return
    drawn = [arm.arm for arm in arms.drawn]
    coverage = {outliers: page.book.by_scope(_COVERAGE, kind, outliers) for outliers in page.sets}
    st.html(tag("p", _sentence(found[page.sets[0]], drawn, buckets, column, first), " ", says, cls="dr-say"))
    for outliers in page.sets:
        if len(page.sets) > 1:
            st.html(tag("p", tag("b", OUTLIER_LABELS[outliers]), cls="dr-key"))
        rows = _chart_rows(found[outliers], coverage[outliers], drawn, buckets)
        chart = bucket_arms(
            pa.Table.from_pylist(rows, schema=_SCHEMA),
            axis_title=f"{column.spec} {column.statistic}, {_unit(column)}",
            bucket_title=first,
            colours=dict(page.colours),
            log=column.unit == "nats",
            number_format=".2~%" if column.unit == "share" else ".3~g",
        )
        name = f"{page.campaign.protocol_name}-{column.key}-by-{kind}-{outliers}"
        shown_chart(chart, name=name, alt=f"{column.header} by {first}, {OUTLIER_LABELS[outliers]}")
    st.html(_table(page, arms, column, kind, buckets, found, coverage, title=title))
    csv_button(
        [
            {"arm": arm.arm, **figure_fields(figures[arm.arm, bucket])}
            for figures in (*found.values(), *coverage.values())
            for arm in arms.listed
            for bucket in buckets
            if (arm.arm, bucket) in figures
        ],
        name=f"{page.campaign.protocol_name}-{column.key}-by-{kind}-{page.view.outliers}",
        key=f"bucket.{kind}",
    )


def _has(found: dict[str, Figures], names: set[str], scope: str) -> bool:
    return any((name, scope) in figures for figures in found.values() for name in names)


def _unit(column: Column) -> str:
    return "nats" if column.unit == "nats" else "share of positions"


def _chart_rows(figures: Figures, coverage: Figures, arms: list[str], buckets: list[str]) -> list[dict]:
    rows = []
    for bucket in buckets:
        for arm in arms:
            figure = figures.get((arm, bucket))
            if figure is None:
                continue
            share = coverage.get((arm, bucket))
            rows.append(
                {
                    "bucket": bucket,
                    "arm": arm,
                    "value": None if is_withheld(figure) else figure.value,
                    "low": figure.low,
                    "high": figure.high,
                    "n": figure.n,
                    "state": figure.state,
                    "reason": figure.reason,
                    "floor_value": figure.floor_value,
                    "coverage": None if share is None else share.value,
                }
            )
    return rows


def _sentence(figures: Figures, arms: list[str], buckets: list[str], column: Column, first: str) -> str:
    """In how many arms the last bucket lies above the first, and where the largest value is."""
    known = {
        key: figure
        for key, figure in figures.items()
        if key[0] in arms and key[1] in buckets and not is_withheld(figure) and figure.value is not None
    }
    if not known:
        return "Every figure is withheld: too few positions in each bucket."
    arm, bucket = max(known, key=lambda key: known[key].value or 0.0)
    unit = " nats" if column.unit == "nats" else ""
    words = f"The largest is {arm} at {bucket}: {write_value(known[arm, bucket], column.unit)}{unit}."
    ends = [(known[name, buckets[0]], known[name, buckets[-1]]) for name in arms if _both(known, name, buckets)]
    if len(buckets) > 1 and ends:
        rising = sum((last.value or 0.0) > (start.value or 0.0) for start, last in ends)
        apart = sum(_apart(start, last) for start, last in ends)
        words += (
            f" From {buckets[0]} to {buckets[-1]} ({first}) it is larger in {rising} of {len(ends)} arms; the two "
            f"intervals are apart in {apart}."
        )
    return words


def _both(known: Figures, name: str, buckets: list[str]) -> bool:
    return (name, buckets[0]) in known and (name, buckets[-1]) in known


def _apart(left: Figure, right: Figure) -> bool:
    if left.low is None or left.high is None or right.low is None or right.high is None:
        return False
    return left.high < right.low or right.high < left.low


def _table(
    page: Page,
    arms: Compared,
    column: Column,
    kind: str,
    buckets: list[str],
    found: dict[str, Figures],
    coverage: dict[str, Figures],
    *,
    title: str,
) -> Html:
    several = len(page.sets) > 1
    shared = {bucket: _shared(arms, bucket, found, coverage, column) for bucket in buckets}
    head = [tag("th", "arm", scope="col")]
    head += [tag("th", "outliers", scope="col")] if several else []
    head += [
        tag("th", bucket, *(tag("span", line, cls="dr-line dr-title dr-wrap") for line in shared[bucket]), scope="col")
        for bucket in buckets
    ]
    body = []
    for arm in arms.listed:
        for at, outliers in enumerate(page.sets):
            name = [arm_cell(arm, colour=page.colours.get(arm.arm, ""), rowspan=len(page.sets))] if not at else []
            mark = [tag("td", outliers)] if several else []
            cells = []
            for bucket in buckets:
                figure = found[outliers].get((arm.arm, bucket))
                words = () if figure is None else _beside(figure, coverage[outliers].get((arm.arm, bucket)), column)
                own = [line for line in words if line not in shared[bucket]]
                # What the head says already is not said again.
                lines = figure_cell(None if figure is None else replace(figure, floor=""), column)
                lines += [tag("span", line, cls="dr-line dr-small dr-wrap") for line in own]
                cells.append(tag("td", lines, data_figure=column.key, data_scope=bucket, data_outliers=outliers))
            body.append(tag("tr", name, mark, cells, data_arm=arm.arm, data_outliers=outliers))
    return table(
        f"{column.spec} {column.statistic}, {_unit(column)}. {_over_all(page)}".strip(), head, body, label=title
    )


def _beside(figure: Figure, share: Figure | None, column: Column) -> tuple[str, ...]:
    """What stands beside a figure: n, coverage where it was sampled, the floor."""
    words = [f"n {figure.n:,}"]
    words += [] if share is None else [f"{write_value(share, 'share')} of the positions scored"]
    if figure.floor and figure.floor_value is not None:
        borrowed = ", borrowed" if figure.borrowed else ""
        words.append(f"floor {write_number(figure.floor_value, column.unit, digits=2)} ({figure.floor}{borrowed})")
    return tuple(words)


def _shared(
    arms: Compared,
    bucket: str,
    found: dict[str, Figures],
    coverage: dict[str, Figures],
    column: Column,
) -> tuple[str, ...]:
    """The lines that every figure of a bucket has beside it, in their order."""
    lines = [
        _beside(figures[arm.arm, bucket], coverage[outliers].get((arm.arm, bucket)), column)
        for outliers, figures in found.items()
        for arm in arms.listed
        if (arm.arm, bucket) in figures
    ]
    return tuple(line for line in lines[0] if all(line in other for other in lines)) if lines else ()


def _over_all(page: Page) -> str:
    return "" if page.view.scope == "all" else "Over all scored positions, not the chosen panel alone."
