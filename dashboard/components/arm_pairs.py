"""Two arms against each other on the same positions: paired differences, and which test decides."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.components.measures import unit_of
from dashboard.figures import split_scope, write_number
from dashboard.frame import chip
from drift_runs.measure.comparability import compare_keys, key_from_tags

if TYPE_CHECKING:
    from dashboard.frame import Page


def pairs_of(page: Page, rows: list[dict[str, Any]], figure: str, arms: Collection[str]) -> list[dict[str, Any]]:
    """Rows of ``PAIRS`` in one figure, ``spec/statistic``, between arms, over the chosen positions and windows."""
    kind, name = split_scope(page.view.scope)
    return [
        row
        for row in rows
        if f"{row['spec']}/{row['statistic']}" == figure
        and (row["scope_kind"], row["scope"]) == (kind, name)
        and row["outliers"] in page.sets
        and {row["left"], row["right"]} <= set(arms)
    ]


def pairs_table(page: Page, rows: list[dict[str, Any]], chosen: str, arms: Collection[str]) -> None:
    """Draw the pairs of some arms in one figure, what decides between them, and the button that hands them out."""
    sets = page.sets
    shown = pairs_of(page, rows, chosen, arms)
    alpha = 1 - page.protocol.intervals.confidence
    st.html(
        tag(
            "p",
            "The difference is left minus right over positions that both have, and its interval resamples clusters of "
            "both arms together. The cluster sign-flip permutation decides "
            f"(p under {alpha:.2g}: the two differ). McNemar's test stands beside it and takes positions as "
            "independent, which they are not: never decide by it.",
            cls="dr-say",
        )
    )
    if not shown:
        st.html(tag("p", "No pair of these arms was compared over these positions.", cls="dr-say"))
        return
    # The caption has what is the same in every row; the largest difference comes first, what has none last.
    shown.sort(key=lambda row: (-abs(row["difference"] or 0.0), row["left"], row["right"], row["outliers"]))
    intervals = sorted({row["interval"] for row in shown if row["interval"]})
    flips = any(row["left_only"] is not None for row in shown)
    head = [tag("th", word, scope="col") for word in ("left", "right")]
    head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
    head += [tag("th", word, scope="col") for word in ("left", "right", "difference", "sign-flip permutation")]
    head += (
        [tag("th", "McNemar", tag("span", "positions independent", cls="dr-line dr-spec"), scope="col")]
        if flips
        else []
    )
    unit = "windows" if page.has_positions else "contexts"
    head += [tag("th", f"{unit} with left above", scope="col"), tag("th", "n", scope="col", cls="dr-right")]
    keys = {arm.arm: key_from_tags(arm.key) for arm in page.campaign.arms if arm.complete}
    notes = {row["reason"] for row in shown}
    common = notes.pop() if len(notes) == 1 else ""
    body = []
    for row in shown:
        against = compare_keys(keys[row["left"]], keys[row["right"]]).reasons
        body.append(_row(row, against, alpha, several=len(sets) > 1, flips=flips, common=common))
    many = "1 pair" if len(shown) == 1 else f"{len(shown)} pairs"
    caption = f"{many} in {chosen.replace('/', ' ')}, the largest difference first."
    if intervals:
        caption += f" Intervals: {'; '.join(intervals)}."
    if common:
        caption += f" {common}."
    st.html(table(caption, head, body, label="Pairs", wide=True))
    csv_button(shown, name=f"{page.campaign.protocol_name}-pairs-{page.view.outliers}", key="pairs")


def _row(
    row: dict[str, Any], against: tuple[str, ...], alpha: float, *, several: bool, flips: bool, common: str
) -> Html:
    unit = unit_of(row["spec"], row["statistic"])
    mark = [tag("td", row["outliers"])] if several else []
    lead = [tag("th", row["left"], scope="row"), tag("th", row["right"], scope="row"), mark]
    places = {"data_left": row["left"], "data_right": row["right"], "data_outliers": row["outliers"]}
    if against or row["difference"] is None:
        why = [tag("span", reason, cls="dr-line dr-wrap") for reason in against or (row["reason"],)]
        what = "not comparable" if against else "no difference is given"
        cells = [tag("td", tag("b", what), why, colspan=6 + flips, cls="dr-small")]
        return tag("tr", lead, cells, **places)
    cells = [
        tag("td", _number(row["left_value"], unit), cls="dr-num"),
        tag("td", _number(row["right_value"], unit), cls="dr-num"),
        tag("td", _difference(row, unit, common), data_figure="difference"),
        tag("td", _sign_flip(row, alpha), data_figure="sign_flip"),
    ]
    cells += [tag("td", _mcnemar(row), data_figure="mcnemar")] if flips else []
    windows = "" if row["windows"] is None else f"{row['windows_left_above']:,} of {row['windows']:,}"
    left_out = tag("span", f"{row['excluded']:,} left out", cls="dr-line dr-small") if row["excluded"] else None
    cells += [tag("td", windows, cls="dr-num"), tag("td", f"{row['n']:,}", left_out, cls="dr-num dr-right")]
    return tag("tr", lead, cells, **places)


def _number(value: float | None, unit: str) -> str:
    return "not known" if value is None else write_number(value, unit)


def _difference(row: dict[str, Any], unit: str, common: str) -> list[Html | None]:
    low, high = row["low"], row["high"]
    lines: list[Html | None] = [
        tag("span", write_number(row["difference"], unit, low=low, high=high), cls="dr-line dr-value dr-num")
    ]
    lines += (
        [_small(f"[{_end(low, low, high, unit)}, {_end(high, low, high, unit)}]", row["interval"])]
        if low is not None
        else []
    )
    if row["bca_low"] is not None:
        ends = (row["bca_low"], row["bca_high"])
        lines.append(_small(f"BCa [{_end(ends[0], *ends, unit)}, {_end(ends[1], *ends, unit)}]"))
    if row["standard_error"] is not None:
        lines.append(_small(f"SE {write_number(row['standard_error'], unit, digits=2)}, clustered"))
    if row["reason"] and row["reason"] != common:
        lines.append(tag("span", row["reason"], cls="dr-line dr-small dr-wrap"))
    return lines


def _end(value: float, low: float, high: float, unit: str) -> str:
    return write_number(value, unit, low=low, high=high, bare=True)


def _small(words: str, title: str = "") -> Html:
    return tag("span", words, cls="dr-line dr-small dr-num", title=title or None)


def _sign_flip(row: dict[str, Any], alpha: float) -> list[Html | None]:
    p = row["p_sign_flip"]
    if p is None:
        return [tag("span", "not computed", cls="dr-small")]
    word = chip("differ", "above") if p < alpha else chip("not told apart", "plain")
    return [
        tag("span", f"p {_p(p)}", cls="dr-line dr-num"),
        word,
        _small(row["sign_flip"]) if row["sign_flip"] else None,
    ]


def _mcnemar(row: dict[str, Any]) -> list[Html | None]:
    if row["p_mcnemar"] is None:
        return [tag("span", "flips only", cls="dr-small")]
    counts = f"left alone {row['left_only']:,}, right alone {row['right_only']:,}"
    return [tag("span", f"p {_p(row['p_mcnemar'])}", cls="dr-line dr-num dr-grey"), _small(counts)]


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
