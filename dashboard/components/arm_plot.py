"""A plot of any figure, arms grouped by a facet, under a sentence that says what is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.components.arm_order import Group, grouped
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.markup import Html, tag
from dashboard.components.measures import unit_of
from dashboard.figures import FLIP_STRICT, STRONG_RATE, Column, split_scope, write_number
from dashboard.frame import FACET_LABELS, Page, chip, choose, control
from drift_runs.charts.figure_by_facet import figure_by_facet, spans_decades
from drift_runs.charts.palette import OUTLIER_LABELS, VERDICT_LABELS
from drift_runs.report.arm_rows import chart_rows

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord

FORMATS = {"share": ".2~%", "nats": ".2~g", "count": ",d"}
UNIT_WORDS = {"share": "%", "nats": "nats", "count": "count", "tokens": "tokens"}
_TESTS = ("p_sign_flip", "p_mcnemar")
"""The probability of a test has no place beside figures on an axis."""


def plot_columns(page: Page, arms: list[ArmRecord]) -> dict[str, Column]:
    """Every figure that an arm has over the chosen positions, by ``spec/statistic``: the leading ones first."""
    kind, name = split_scope(page.view.scope)
    there: dict[str, Column] = {}
    for table in (page.book.table, page.book.generated):
        kept = table.filter(
            pc.and_(
                pc.and_(pc.equal(table["scope_kind"], kind), pc.equal(table["scope"], name)),
                pc.is_in(table["arm"], value_set=pa.array([arm.arm for arm in arms], pa.string())),
            )
        )
        for pair in kept.select(["spec", "statistic"]).group_by(["spec", "statistic"]).aggregate([]).to_pylist():
            spec, statistic = pair["spec"], pair["statistic"]
            if statistic not in _TESTS:
                key = f"{spec}/{statistic}"
                there.setdefault(
                    key, Column(key=key, header="", spec=spec, statistic=statistic, unit=unit_of(spec, statistic))
                )
    leading = {
        f"{column.spec}/{column.statistic}": column
        for column in (page.columns.first, *page.columns.overview, FLIP_STRICT, STRONG_RATE)
    }
    first = {key: column for key, column in leading.items() if key in there}
    return first | {key: there[key] for key in sorted(there) if key not in first}


def column_words(column: Column) -> str:
    """``KL mean, nats (kl.full)`` of a leading figure, ``entropy.full.reference mean`` of any other."""
    return column.label if column.header else f"{column.spec} {column.statistic}"


def figure_plot(page: Page, arms: list[ArmRecord]) -> None:
    """The section: choice of the figure, what is seen, the chart, and its rows as CSV. Draws nothing without arms."""
    columns = plot_columns(page, arms)
    if not columns:
        return
    st.subheader("One figure, arm by arm", anchor=False)
    chosen = choose("plot", list(columns))
    st.selectbox(
        f"Figure (of {len(columns)})",
        list(columns),
        format_func=lambda key: column_words(columns[key]),
        width=420,
        **control("plot", chosen),
    )
    column = columns[chosen]
    groups = grouped(page, arms)
    rows = _with_facet(chart_rows(page, column, [arm for group in groups for arm in group.arms]), groups)
    st.html(tag("p", _sentence(page, column, groups, rows.to_pylist()), cls="dr-say", data_say="plot"))
    if rows.num_rows:
        values = rows["value"].to_pylist()
        by = "" if page.view.group == "none" else f", grouped by {FACET_LABELS[page.view.group].lower()}"
        chart = figure_by_facet(
            rows,
            title=_axis_title(column),
            log=column.unit == "nats" and spans_decades(values),
            number_format=FORMATS.get(column.unit, ".3~g"),
            colours=page.colours,
            counted="n",
        )
        name = f"{page.campaign.protocol_name}-{chosen}-{page.view.group}-{page.view.outliers}"
        shown_chart(chart, name=name, alt=f"{column_words(column)} by arm{by}", key="plot")
        st.html(
            tag(
                "p",
                "A point has its interval. The dashed line is the floor, the grey band its own interval. A hatched "
                "mark is a figure that is withheld.",
                cls="dr-key",
            )
        )
        csv_button(rows.to_pylist(), name=name, key="plot")


def _axis_title(column: Column) -> str:
    if column.header:
        words = column.header.removesuffix(f", {column.unit}")
        return f"{words} ({column.spec}), {UNIT_WORDS.get(column.unit, column.unit)}"
    unit = UNIT_WORDS.get(column.unit)
    return f"{column.spec} {column.statistic}{f', {unit}' if unit else ''}"


def _with_facet(rows: pa.Table, groups: list[Group]) -> pa.Table:
    """The rows with the words of each arm's group."""
    words = {arm.arm: group.words.partition(" ")[2] for group in groups for arm in group.arms}
    return rows.append_column("facet", pa.array([words[arm] for arm in rows["arm"].to_pylist()], pa.string()))


def _sentence(page: Page, column: Column, groups: list[Group], rows: list[dict[str, Any]]) -> list[Html | str]:
    """From the smallest to the largest, how many stand above the floor, and each group's own span."""
    outliers = page.sets[0]
    here = [row for row in rows if row["outliers"] == outliers]
    known = {row["arm"]: row for row in here if row["value"] is not None}
    if not known:
        reasons = "; ".join(sorted({row["reason"] for row in here if row["reason"]}))
        return [f"No arm has {column_words(column)} over these positions", f": {reasons}." if reasons else "."]
    parts: list[Html | str] = [_span(column, known)]
    verdicts = [row["verdict"] for row in here if row["verdict"]]
    if verdicts and column.unit == "nats":
        counts = [f"{verdicts.count(key)} {words}" for key, words in VERDICT_LABELS.items() if key in verdicts]
        parts.append(f" {', '.join(counts)}.")
    withheld = [row["arm"] for row in here if row["value"] is None]
    if withheld:
        parts.append(f" Withheld: {', '.join(withheld)}.")
    if len(page.sets) > 1:
        parts.append(f" ({OUTLIER_LABELS[outliers]})")
    if "with" in page.sets and any(page.includes_outliers(arm, column) for arm in known):
        parts += [" ", chip("incl. outlier", "outlier", "Figures count a window declared as an outlier.")]
    for group in groups:
        inside = {arm.arm: known[arm.arm] for arm in group.arms if arm.arm in known}
        if group.words:
            words = _span(column, inside) if inside else "no value."
            parts.append(tag("span", tag("b", group.words), f": {words}", cls="dr-line dr-small"))
    return parts


def _span(column: Column, known: dict[str, dict[str, Any]]) -> str:
    """From the smallest to the largest, each rounded as a table rounds it."""
    values = {arm: row["value"] for arm, row in known.items()}

    def number(arm: str) -> str:
        return write_number(values[arm], column.unit, low=known[arm]["low"], high=known[arm]["high"])

    least, most = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    if len(values) == 1:
        return f"{number(least)} ({least})."
    if values[least] == values[most]:
        return f"{number(least)} for each of {len(values)} arms."
    ratio = values[most] / values[least] if values[least] > 0 else 0.0
    # Two digits: a ratio is no better known than its smaller part.
    times = f", {float(f'{ratio:.2g}'):,.4g} times as much" if 1.05 <= ratio < 1000 else ""
    times = f", {float(f'{ratio:.2g}'):,.0f} times as much" if ratio >= 1000 else times
    return f"From {number(least)} ({least}) to {number(most)} ({most}){times}."
