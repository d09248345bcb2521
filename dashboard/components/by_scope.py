"""One arm's figures by history, depth and quarter, by confidence, by copies and literals, by role and group."""

from __future__ import annotations

import pyarrow as pa
import streamlit as st

from dashboard.components.export import shown_chart
from dashboard.components.markup import tag
from dashboard.components.measure_lists import VOLATILE
from dashboard.components.measures import measure_table
from dashboard.components.scope_grid import ScopeGrid
from dashboard.components.shown import Shown, shown_csv
from dashboard.figures import FLIP, FLIP_STRICT, Column, is_withheld, short_name
from dashboard.frame import Page
from drift_runs.charts.depth_curve import depth_curve

MARKED_WORDS = {
    "copy": "copies",
    "not-copy": "the rest",
    "literal": "literals that occur earlier",
    "not-literal": "the rest",
    "q1": "first quarter",
    "q2": "second",
    "q3": "third",
    "q4": "last quarter",
}
VOLATILE_RATE = Column(key="volatile", header="volatile rate", spec="volatile", statistic="rate", unit="share")
VOLATILE_COUNT = Column(key="volatile_n", header="volatile", spec="volatile", statistic="count", unit="count")
CONFIDENT = Column(key="confident", header="confident", spec="volatile.confident", statistic="count", unit="count")
DNLL = Column(key="dnll", header="dNLL mean, nats", spec="dnll", statistic="mean", unit="nats")
FLIP_COUNT = Column(key="flip_n", header="flips", spec="flip", statistic="count", unit="count")

_CURVE_SCHEMA = pa.schema(
    [
        ("bucket", pa.string()),
        ("outliers", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),
        ("state", pa.string()),
        ("reason", pa.string()),
        ("floor_value", pa.float64()),
    ]
)


def _over_all(page: Page) -> str:
    return "" if page.view.scope == "all" else "Over all scored positions, not the chosen panel alone."


def by_confidence(page: Page, shown: Shown) -> None:
    """Flips in each band of the reference's confidence."""
    columns = (FLIP, FLIP_STRICT, FLIP_COUNT, page.columns.mean, VOLATILE_RATE, VOLATILE_COUNT, CONFIDENT)
    grid = ScopeGrid(page, shown.arm.arm, ["band"], columns)
    if grid:
        bands = page.protocol.bands
        words = {
            "uncertain": f"uncertain: under {bands.uncertain_below:g}",
            "leaning": f"leaning: {bands.uncertain_below:g} to under {bands.strong_from:g}",
            "strong": f"strong: {bands.strong_from:g} or more",
        }
        caption = f"By what the reference gave its best token. {_over_all(page)}"
        st.html(grid.table(label="Flips by confidence", first="reference's confidence", caption=caption, words=words))
        shown_csv(shown, grid.all_figures(), "bands")


def by_length(page: Page, shown: Shown) -> None:
    """By history and depth as a picture and a table, by quarter as a table."""
    columns = (page.columns.mean, _median(page), page.columns.p95, FLIP, DNLL, VOLATILE_RATE, VOLATILE_COUNT)
    drawn = False
    for kind, title, first in (
        ("history", "By history", "tokens of history"),
        ("depth", "By depth of the stream", "depth, tokens"),
        ("quarter", "By quarter of the window", "quarter"),
    ):
        grid = ScopeGrid(page, shown.arm.arm, [kind], columns)
        if not grid:
            continue
        drawn = True
        st.subheader(title, anchor=False)
        if kind != "quarter" and len(grid.scopes) > 1:
            _curve(page, grid, kind, first)
        st.html(grid.table(label=title, first=first, caption=_over_all(page), words=MARKED_WORDS))
        shown_csv(shown, grid.all_figures(), kind)
    if not drawn:
        st.subheader("By history and depth", anchor=False)
        st.html(tag("p", "Not known: the source gives no positions.", cls="dr-say"))


def _median(page: Page) -> Column:
    name = short_name(page.columns.headline)
    return Column(key="p50", header=f"{name} median, nats", spec=page.columns.headline, statistic="p50", unit="nats")


def _curve(page: Page, grid: ScopeGrid, kind: str, first: str) -> None:
    column = page.columns.mean
    rows = []
    for _, scope in grid.scopes:
        for outliers in grid.sets:
            figure = grid.figures.get((kind, scope, outliers, column.key))
            if figure is not None:
                rows.append(
                    {
                        "bucket": scope,
                        "outliers": outliers,
                        "value": None if is_withheld(figure) else figure.value,
                        "low": figure.low,
                        "high": figure.high,
                        "n": figure.n,
                        "state": figure.state,
                        "reason": figure.reason,
                        "floor_value": figure.floor_value,
                    }
                )
    if not rows:
        return
    chart = depth_curve(
        pa.Table.from_pylist(rows, schema=_CURVE_SCHEMA),
        axis_title=f"{column.spec} mean, nats",
        bucket_title=first,
    )
    shown_chart(chart, name=f"{page.view.arm}-by-{kind}", alt=f"{column.spec} mean by {first}", key=f"by-{kind}")
    st.html(
        tag(
            "p",
            "Points with their intervals; the grey tick is the floor. Points are joined only where every one of them "
            "has an interval.",
            cls="dr-key",
        )
    )


def by_marks(page: Page, shown: Shown) -> None:
    """Volatile positions, among copies and literals and among the rest."""
    columns = (VOLATILE_RATE, VOLATILE_COUNT, CONFIDENT, page.columns.mean, FLIP, DNLL)
    grids = [
        (ScopeGrid(page, shown.arm.arm, [kind], columns), title, first)
        for kind, title, first in (("copied", "Copies", "positions"), ("literal", "Literals", "positions"))
    ]
    st.subheader("Copies, literals and volatile positions", anchor=False)
    marks = page.protocol.marks
    st.html(
        tag(
            "p",
            f"Volatile: |dNLL| above {marks.volatile_above_nats:g} nat; confident when either side gave the text's "
            f"token more than {marks.confident_above:g}. A copy completes {marks.copy_tokens} tokens that ended more "
            f"than {marks.copy_distance_tokens:,} tokens earlier; a literal also occurs earlier in the stream.",
            cls="dr-say",
        )
    )
    found = shown.find(VOLATILE)
    if found:
        st.html(measure_table(found, label="Volatile positions", sets=shown.sets))
        shown_csv(shown, [figure for _, figure in found], "volatile")
    for grid, title, first in grids:
        if grid:
            st.html(
                grid.table(
                    label=title, first=first, caption=f"{title} against the rest. {_over_all(page)}", words=MARKED_WORDS
                )
            )
            shown_csv(shown, grid.all_figures(), title.lower())
    if not any(grid for grid, _, _ in grids):
        st.html(tag("p", "Copies and literals are not known: the text of the rows is not.", cls="dr-say"))


def by_text(page: Page, shown: Shown) -> None:
    """By who wrote the text, and by the group that the protocol gives a window."""
    columns = (FLIP, FLIP_STRICT, page.columns.mean, page.columns.p95, DNLL, VOLATILE_RATE)
    for kind, title, first, words in (
        ("role", "By role", "who wrote the text", {"prompt": "prompt: authored", "generated": "generated: reference"}),
        ("group", "By group", "group", {}),
    ):
        grid = ScopeGrid(page, shown.arm.arm, [kind], columns)
        if grid:
            st.subheader(title, anchor=False)
            st.html(grid.table(label=title, first=first, caption=_over_all(page), words=words))
            shown_csv(shown, grid.all_figures(), kind)
