"""Size of the weights against drift: the chart, which arms are on the front, and which could not be placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import streamlit as st

from dashboard.components.export import csv_button, shown_chart
from dashboard.components.markup import Html, join, tag
from dashboard.figures import is_withheld, write_number
from dashboard.frame import chip
from drift_runs.charts.size_drift import pareto_front, size_drift

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

_SCHEMA = pa.schema(
    [
        ("arm", pa.string()),
        ("bytes", pa.int64()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),
    ]
)


def size_section(page: Page, arms: list[ArmRecord]) -> None:
    """Draw the section for arms that may be ranked together. ``page.columns.mean`` is the drift."""
    column = page.columns.mean
    outliers = page.sets[0]
    rows, left_out = _rows([(arm, page.figure(arm.arm, column, outliers)) for arm in arms])
    if not arms:
        return
    st.subheader("Size against drift", anchor=False)
    st.html(tag("p", _sentence(page, rows, left_out), cls="dr-say", data_say="sizes"))
    if not rows:
        return
    words = column.header.removesuffix(", nats")
    chart = size_drift(
        pa.Table.from_pylist(rows, schema=_SCHEMA),
        title=f"{words} ({column.spec}), nats",
        number_format=".2~g",
        colours=page.colours,
        reference_bytes=_reference_bytes(page),
    )
    name = f"{page.campaign.protocol_name}-size-{outliers}"
    shown_chart(chart, name=name, alt=f"size of the weights against {words}, Pareto front marked", key="sizes")
    st.html(
        tag(
            "p",
            "Ringed: on the front, where no arm is both smaller and nearer to the reference. The front takes the "
            "values alone; where intervals overlap, its order is not certain. Size counts the weights' file (and an "
            "adapter), not the KV cache.",
            cls="dr-key",
        )
    )
    front = _front(rows)
    csv_button([{**row, "front": row["arm"] in front} for row in rows], name=name, key="sizes")


def _rows(found: list[tuple[ArmRecord, Figure | None]]) -> tuple[list[dict[str, object]], list[str]]:
    """Rows of the chart, and why each other arm has no place in it."""
    rows: list[dict[str, object]] = []
    left_out = []
    for arm, figure in found:
        if not arm.weight_bytes:
            left_out.append(f"{arm.arm} (size not known)")
        elif figure is None or is_withheld(figure):
            left_out.append(f"{arm.arm} ({figure.reason if figure and figure.reason else 'not measured'})")
        elif figure.value is None or figure.value <= 0:
            left_out.append(f"{arm.arm} (0 nats has no place on a log axis)")
        else:
            rows.append(
                {
                    "arm": arm.arm,
                    "bytes": arm.weight_bytes,
                    "value": figure.value,
                    "low": figure.low,
                    "high": figure.high,
                    "n": figure.n,
                }
            )
    return rows, left_out


def _front(rows: list[dict[str, object]]) -> tuple[str, ...]:
    return pareto_front({row["arm"]: row["bytes"] for row in rows}, {row["arm"]: row["value"] for row in rows})


def _sentence(page: Page, rows: list[dict[str, object]], left_out: list[str]) -> Html:
    parts: list[object] = []
    outliers = page.sets[0]
    if rows:
        front = _front(rows)
        by_name = {row["arm"]: row for row in rows}
        said = [f"{name} ({size_words(int(by_name[name]['bytes']))})" for name in front]
        parts += ["On the front, smallest first: ", tag("b", ", ".join(said)), "."]
        beaten = [name for name in by_name if name not in front]
        if beaten:
            parts.append(f" For each of the other {len(beaten)} there is one that is no larger and drifts less.")
        reference = _reference_bytes(page)
        if reference:
            smallest = by_name[front[0]]
            share = int(smallest["bytes"]) / reference
            value = write_number(float(smallest["value"]), "nats", low=smallest["low"], high=smallest["high"])
            parts.append(
                f" {front[0]} has {share:.0%} of the reference's {size_words(reference)} and drifts {value} nats."
            )
    if outliers == "with" and any(page.includes_outliers(str(row["arm"]), page.columns.mean) for row in rows):
        parts += [" ", chip("incl. outlier", "outlier", "Figures count a window declared as an outlier.")]
    if left_out:
        parts.append(f" Left out: {'; '.join(left_out)}.")
    return join(parts)


def _reference_bytes(page: Page) -> int | None:
    """Size of the reference's weights: that of a floor of it, which has the same file. None without one."""
    floors = {floor.name for floor in page.protocol.floors if floor.arm == page.campaign.reference}
    return next((arm.weight_bytes for arm in page.campaign.arms if arm.arm in floors and arm.weight_bytes), None)


def size_words(count: int) -> str:
    """``145 MB``: three digits of a size in bytes, in powers of a thousand."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}" if count < 999.5 * factor else f"{count / factor:,.0f} {unit}"
    return f"{count:,} B"
