"""Where the arms drift: kinds of range, worst ranges, tails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pyarrow as pa

from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.charts.range_heatmap import range_heatmap, value_domain
from drift_runs.measure.quantiles import QUANTILES
from drift_runs.report.content import Content
from drift_runs.report.figures import FLIP, Column, is_withheld, write_value
from drift_runs.report.grid import Grid, Picture, Row, Section, count, figure_cell, words
from drift_runs.report.rows import by_arm, figure_fields, present
from drift_runs.tracking.records import ArmRecord

CELL_WIDTH_PX = 112
"""Of a cell of the heat map: its count and state stand in it on one line."""
RANGES_SHOWN = 3
"""Ranges of an arm that the printed table lists; the CSV has all."""
SAME_IN_BOTH = "none declared"
"""Of a panel without a declared window: its figures with and without are the same, and stand once."""


def ranges(content: Content) -> Section:
    """The heat map of kinds, the worst range of each arm, and each arm's largest ranges."""
    columns = content.columns
    arms = content.judged
    if columns.free_running or not content.protocol.ranges or not arms:
        why = "The protocol names no range, so no place in the text can be named."
        if columns.free_running:
            why = "Continuations were compared and no positions, so there is no range to show."
        return Section(key="ranges", title="Where: ranges", says=(why,))
    flips = Column(
        key="worst_flips", header="worst range, flip rate", spec="flip", statistic="worst_range.rate", unit="share"
    )
    mean = Column(
        key="worst_mean",
        header="worst range mean, nats",
        spec=columns.headline,
        statistic="worst_range.mean",
        unit="nats",
    )
    worst = present(content, arms, (columns.worst, mean, flips))
    grids = []
    if worst:
        grids.append(
            by_arm(
                content,
                arms,
                worst,
                name="worst-ranges",
                title="The worst range of each arm",
                says="A maximum over noisy ranges is biased upwards: the floor's maximum over the same ranges stands "
                "beside it, and the share of resamples in which the named range is the worst one.",
                counted="positions in it",
            )
        )
    grids.append(_largest(content, arms))
    return Section(
        key="ranges",
        title="Where: ranges",
        says=(_sentence(content, arms),),
        pictures=tuple(_maps(content, arms)),
        grids=tuple(grids),
    )


def _maps(content: Content, arms: Sequence[ArmRecord]) -> list[Picture]:
    column = content.columns.p95
    tables = {outliers: kind_cells(content, arms, column, outliers) for outliers in content.sets}
    everything = [row for table in tables.values() for row in table.to_pylist()]
    if not everything:
        return []
    outside = [arm.arm for arm in arms if arm.role == "follow-up"]
    last = f" Follow-ups, which are outside the protocol, stand last: {', '.join(outside)}." if outside else ""
    return [
        Picture(
            name=f"range-kinds-{outliers}",
            says=f"{column.spec} p95 by kind of range and arm, {OUTLIER_LABELS[outliers]}. Greyed: 10 to 99 values "
            f"beyond the quantile; dotted: withheld, fewer than 10.{last}",
            chart=range_heatmap(table, title=f"{column.spec} p95, nats", domain=value_domain(everything)),
            width_px=150 + CELL_WIDTH_PX * len(arms),
        )
        for outliers, table in tables.items()
    ]


def kind_cells(content: Content, arms: Sequence[ArmRecord], column: Column, outliers: str) -> pa.Table:
    """Cells of the heat map: every kind for every arm, also where nothing was measured."""
    found = content.book.by_scope(column, "kind", outliers)
    rows = []
    for kind in content.book.scopes("kind"):
        for arm in arms:
            figure = found.get((arm.arm, kind))
            rows.append(
                {
                    "arm": arm.arm,
                    "kind": kind,
                    "value": None if figure is None or is_withheld(figure) else figure.value,
                    "n": figure.n if figure else 0,
                    "state": figure.state if figure else "withheld",
                    "reason": figure.reason if figure else "not measured",
                    "shown": write_value(figure, column.unit) if figure else "withheld",
                    "verdict": figure.verdict if figure else "",
                }
            )
    return pa.Table.from_pylist(rows)


def _sentence(content: Content, arms: Sequence[ArmRecord]) -> str:
    column, outliers = content.columns.p95, content.sets[0]
    names = {arm.arm for arm in arms}
    there = {
        key: figure
        for key, figure in content.book.by_scope(column, "kind", outliers).items()
        if key[0] in names and not is_withheld(figure)
    }
    if not there:
        return "Every kind of range is withheld: too few positions lie beyond the quantile."
    (arm, kind), figure = max(there.items(), key=lambda item: item[1].value)
    return (
        f"The largest kind of range is {kind} of {arm} with {column.spec} p95 {write_value(figure, column.unit)} nats "
        f"(n {figure.n:,}, {figure.state}, {OUTLIER_LABELS[outliers]})."
    )


def _largest(content: Content, arms: Sequence[ArmRecord]) -> Grid:
    """The ranges with the largest mean of each arm."""
    mean, p95 = content.columns.mean, content.columns.p95
    declared = content.protocol.outlier_windows
    outlying = {found.name for found in content.protocol.ranges if found.window in declared}
    tables = {column: content.book.by_scope(column, "range", "with") for column in (FLIP, mean, p95)}
    names = {arm.arm for arm in arms}
    rows, every = [], []
    for arm in arms:
        figures = {
            scope: figure
            for (name, scope), figure in tables[mean].items()
            if name == arm.arm and not is_withheld(figure)
        }
        for at, (scope, figure) in enumerate(sorted(figures.items(), key=lambda item: -item[1].value)[:RANGES_SHOWN]):
            cells = [figure_cell(tables[column].get((arm.arm, scope)), column) for column in (FLIP, mean, p95)]
            mark = "in a declared outlier window" if scope in outlying else ""
            lead = words(arm.arm if at == 0 else "")
            rows.append(
                Row(
                    cells=(lead, words(scope, mark, mark="outlier" if mark else ""), *cells, count(figure.n)),
                    arm=arm.arm,
                    outliers="with",
                )
            )
    for table in tables.values():
        every += [figure for (name, _), figure in table.items() if name in names]
    longest = max(
        (sum(1 for name, _ in tables[mean] if name == arm.arm) for arm in arms),
        default=0,
    )
    return Grid(
        name="ranges",
        title="The largest ranges of each arm",
        head=("arm", "range", *(f"{column.header} ({column.spec})" for column in (FLIP, mean, p95)), "n"),
        rows=tuple(rows),
        says=f"The {RANGES_SHOWN} largest by mean of at most {longest}; the CSV file has all.",
        fields=figure_fields(every),
    )


def tails(content: Content) -> Section:
    """Quantiles with their guards, the share of the tail, and the largest value, with and without outliers."""
    if content.columns.free_running:
        return Section(key="tails", title="Tails", says=("No divergence was measured, so there is no tail.",))
    headline = content.columns.headline
    columns = [
        Column(key=name, header=name, spec=headline, statistic=name, unit="nats") for name in (*QUANTILES, "max")
    ]
    share = Column(key="tail_share", header="share of the top 5 %", spec=headline, statistic="tail_share", unit="share")
    arms = [*content.judged, *content.arms("floor")]
    shown = present(content, arms, list(dict.fromkeys([*columns, share])))
    says = (
        "A quantile is firm with 100 values or more beyond it, indicative with 10 to 99, and withheld with fewer. The "
        "share is that of the highest twentieth of the positions in the total."
    )
    grid = by_arm(content, arms, shown, name="tails", title=f"Quantiles of {headline}, nats", says=says)
    return Section(key="tails", title="Tails", grids=(grid,))


def panels(content: Content) -> Section:
    """Each panel by itself, because panels that the reference wrote must not be read as those that people wrote."""
    if content.columns.free_running or len(content.protocol.panels) < 2:
        return Section(key="panels", title="By panel", says=("There is one panel.",))
    columns = (FLIP, content.columns.mean, content.columns.p95)
    rows, every = [], []
    several = len(content.sets) > 1
    declared = {window for window, _ in content.campaign.outliers}
    for panel in content.protocol.panels:
        touched = any(window.name in declared for window in content.protocol.windows if window.panel == panel.name)
        found = {
            outliers: {column: content.book.by_arm(column, f"panel:{panel.name}", outliers) for column in columns}
            for outliers in content.sets
        }
        for arm in content.judged:
            for outliers, by_column in found.items():
                figures = [by_column[column].get(arm.arm) for column in columns]
                if not any(figures):
                    continue
                every += [figure for figure in figures if figure is not None]
                if not touched and outliers != content.sets[0]:
                    continue  # the same positions once more
                which = outliers if touched else SAME_IN_BOTH
                cells = [words(panel.name), words(arm.arm), *([words(which)] if several else [])]
                cells += [figure_cell(figure, column) for figure, column in zip(figures, columns, strict=True)]
                n = next((figure.n for figure in figures if figure is not None), None)
                rows.append(Row(cells=(*cells, count(n)), arm=arm.arm, outliers=outliers))
    titles = "; ".join(f"{panel.name}: {panel.title} ({panel.role})" for panel in content.protocol.panels)
    head = ("panel", "arm", *(["outlier windows"] if several else []))
    grid = Grid(
        name="panels",
        title="Figures by panel",
        head=(*head, *(f"{column.header} ({column.spec})" for column in columns), "n"),
        rows=tuple(rows),
        fields=tuple(asdict(figure) for figure in every),
    )
    return Section(key="panels", title="By panel", says=(titles,), grids=(grid,))
