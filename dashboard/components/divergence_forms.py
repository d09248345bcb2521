"""Every definition of divergence of one arm in one table, with why one is absent, and by arm as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import streamlit as st

from dashboard.components.cells import figure_cell, table
from dashboard.components.export import shown_chart
from dashboard.components.markup import Html, tag
from dashboard.components.measures import LOWER, Measure, measure_table
from dashboard.components.shown import Shown, shown_csv
from dashboard.figures import Column, is_withheld, split_scope
from dashboard.frame import Page, chip
from drift_runs.charts.divergence_dots import divergence_dots
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.measure.specs import DIVERGENCES, Divergence, base_of

if TYPE_CHECKING:
    from drift_runs.measure.figures import Figure

FORMS = ("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
"""Statistics of every definition of divergence, as columns."""

_DOTS_SCHEMA = pa.schema(
    [
        ("arm", pa.string()),
        ("spec", pa.string()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),
    ]
)


def divergence_forms(page: Page, shown: Shown) -> None:
    """The section of a page."""
    st.subheader("Divergence in all its forms", anchor=False)
    headline = page.columns.headline
    st.html(
        tag(
            "p",
            f"Each definition is a figure of its own: two of them are never ranked together. {headline} is this "
            "protocol's: its quantiles, worst range and verdict are used everywhere else.",
            cls="dr-say",
        )
    )
    head = [tag("th", "definition", scope="col")]
    head += [tag("th", "outliers", scope="col")] if len(shown.sets) > 1 else []
    head += [tag("th", f"{name}, nats", scope="col") for name in FORMS] + [tag("th", "n", scope="col", cls="dr-right")]
    body, exported = [], []
    for item in DIVERGENCES:
        by_set = {outliers: {name: shown.one(item.base, name, outliers) for name in FORMS} for outliers in shown.sets}
        there = [figure for figures in by_set.values() for figure in figures.values() if figure]
        exported += there
        spec = there[0].spec if there else item.base
        title = _definition(item, spec, headline, span=len(shown.sets) if there else 1)
        if not there:
            width = len(FORMS) + 1 + (len(shown.sets) > 1)
            why = tag("td", "not measured: ", why_absent(page, item), colspan=width, cls="dr-small dr-wrap")
            body.append(tag("tr", title, why, data_spec=spec))
            continue
        for at, (outliers, figures) in enumerate(by_set.items()):
            mark = [tag("td", outliers)] if len(shown.sets) > 1 else []
            cells = [title if at == 0 else [], mark, _forms(spec, figures)]
            body.append(tag("tr", cells, data_spec=spec, data_outliers=outliers))
    st.html(table("", head, body, label="Divergence in all its forms"))
    shown_csv(shown, exported, "divergence")
    tails = (
        Measure("share of the total in the highest twentieth of the positions", headline, "tail_share"),
        Measure("mean of the windows' means", headline, "window_mean"),
        Measure("worst range by p95", headline, "worst_range.p95"),
        Measure("worst range by mean", headline, "worst_range.mean"),
        Measure("windows in which the candidate lies above the floor", headline, "windows_above"),
        Measure("positions that are exactly zero", headline, "exactly_zero"),
        Measure("left out: null or not finite", headline, "excluded"),
        Measure("infinite: the candidate gives nothing to a token that the reference may write", headline, "infinite"),
    )
    found = shown.find(tails)
    if found:
        st.html(measure_table(found, label="Tail and windows", sets=shown.sets))
        shown_csv(shown, [figure for _, figure in found], "tail")
    quantiles = shown.find_all(lambda figure: figure.statistic.endswith(LOWER))
    lower = [(f"{figure.statistic.removesuffix(LOWER)} by the lower rule", figure) for figure in quantiles]
    if lower:
        with st.expander("Quantiles by the lower rule, which some published receipts use"):
            st.html(measure_table(lower, label="Quantiles by the lower rule", sets=shown.sets))
    _dots(page, shown)


def _definition(item: Divergence, spec: str, headline: str, *, span: int) -> Html:
    mark = tag("span", chip("headline", "within"), cls="dr-line") if base_of(headline) == item.base else None
    return tag(
        "th",
        item.title,
        tag("span", spec, cls="dr-line dr-spec"),
        tag("span", item.bounds, cls="dr-line dr-title dr-wrap"),
        mark,
        scope="row",
        rowspan=span if span > 1 else None,
    )


def _forms(spec: str, figures: dict[str, Figure | None]) -> list[Html]:
    """Cells of one definition and set of windows."""
    cells = []
    for name, figure in figures.items():
        column = Column(key=name, header=name, spec=spec, statistic=name, unit="nats")
        inside = figure_cell(figure, column) if figure else [tag("span", "not computed", cls="dr-small")]
        cells.append(tag("td", inside, data_figure=name))
    n = max((figure.n for figure in figures.values() if figure), default=0)
    return [*cells, tag("td", f"{n:,}", cls="dr-num dr-right")]


def why_absent(page: Page, item: Divergence) -> str:
    """Why no figure of a definition is there, from what the protocol says of the rows."""
    full = page.protocol.capture.full_vocabulary == "yes"
    if not page.has_positions:
        return "the source gives no positions, so only what it states is there"
    if not item.needs_k and not full:
        return f"the rows hold the best {page.protocol.capture.top_k} tokens, and it needs all of the dictionary"
    if item.needs_k and not full:
        return "the source's rows do not hold what it needs of both sides"
    return "this campaign was measured before it was, or its rows were not kept; drift measure computes it where it can"


def _dots(page: Page, shown: Shown) -> None:
    """All arms in every definition that they have, for the first set of windows."""
    outliers = shown.sets[0]
    kind, name = split_scope(page.view.scope)
    ranked = page.ranking().ranked
    listed = [arm for role in ("candidate", "follow-up") for arm in page.arms(role)]
    arms = [arm.arm for arm in listed if arm.arm in ranked or arm.arm == shown.arm.arm]
    arms += [arm.arm for arm in page.arms("floor") if not arm.reference]
    bases = {item.base for item in DIVERGENCES}
    rows = [
        {
            "arm": figure.arm,
            "spec": figure.spec,
            "value": None if is_withheld(figure) else figure.value,
            "low": figure.low,
            "high": figure.high,
            "n": figure.n,
        }
        for figure in page.book.rows(scope_kind=kind, scope=name, outliers=outliers, statistic="mean")
        if base_of(figure.spec) in bases and figure.arm in arms
    ]
    if len({row["spec"] for row in rows}) < 2:
        return
    rows.sort(key=lambda row: arms.index(row["arm"]))
    st.html(
        tag(
            "p",
            f"Every definition's mean by arm, {OUTLIER_LABELS[outliers]}, floors last. A mean of 0 is not drawn.",
            cls="dr-key",
        )
    )
    shown_chart(
        divergence_dots(pa.Table.from_pylist(rows, schema=_DOTS_SCHEMA)),
        name=f"{page.campaign.protocol_name}-definitions",
        alt="mean of every definition by arm",
        key="definitions",
    )
