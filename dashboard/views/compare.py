"""Compare: one candidate against another on the same positions, and whether the figures order the arms alike."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data
from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.components.measures import unit_of
from dashboard.figures import split_scope, write_number
from dashboard.frame import Page, chip, choose, control, open_page, positions_control
from drift_runs.charts.palette import OUTLIER_LABELS
from drift_runs.charts.tau_heatmap import tau_heatmap
from drift_runs.measure.comparability import compare_keys, key_from_tags


def show() -> None:
    page = open_page("Compare")
    positions_control(page)
    rows = data.pairs(page.uri, page.campaign.run_id, page.run_ids).to_pylist()
    figures = list(dict.fromkeys(f"{row['spec']}/{row['statistic']}" for row in rows))
    st.subheader("Candidate against candidate", anchor=False)
    if rows:
        chosen = choose("figure", figures)
        page.row.selectbox(
            "Figure", figures, format_func=lambda name: name.replace("/", " "), width=240, **control("figure", chosen)
        )
        _pairs(page, rows, chosen)
    else:
        st.html(tag("p", _why_none(page), cls="dr-say"))
    _agreement(page)


def _why_none(page: Page) -> str:
    arms = [arm for role in ("candidate", "follow-up") for arm in page.arms(role, filtered=False)]
    if sum(not arm.reference for arm in arms) < 2:
        return f"A pair needs two arms that were compared with {page.campaign.reference}."
    if not page.has_positions:
        return "No pairs: the source gives neither positions nor means by context, so nothing can be paired."
    return "No pairs were computed. A campaign of an older version has none: drift measure computes them."


def _pairs(page: Page, rows: list[dict[str, Any]], chosen: str) -> None:
    kind, name = split_scope(page.view.scope)
    sets = page.sets
    passing = {arm.arm for role in ("candidate", "follow-up") for arm in page.arms(role)}
    shown = [
        row
        for row in rows
        if f"{row['spec']}/{row['statistic']}" == chosen
        and (row["scope_kind"], row["scope"]) == (kind, name)
        and row["outliers"] in sets
        and {row["left"], row["right"]} <= passing
    ]
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
        st.html(tag("p", "No pair over these positions passes the filters.", cls="dr-say"))
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
    caption = f"{len(shown)} pairs in {chosen.replace('/', ' ')}, the largest difference first."
    if intervals:
        caption += f" Intervals: {'; '.join(intervals)}."
    if common:
        caption += f" {common}."
    st.html(table(caption, head, body, label="Pairs"))
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


def _agreement(page: Page) -> None:
    st.subheader("Do the figures agree?", anchor=False)
    table_ = data.agreement(page.uri, page.campaign.run_id, page.run_ids)
    if table_.num_rows == table_["tau"].null_count:
        st.html(tag("p", "No order of arms was compared: it takes three arms with the same figures.", cls="dr-say"))
        return
    turned = " More exact answers are nearer to the reference, so their order is turned round first."
    st.html(
        tag(
            "p",
            "Kendall's tau-b of the arms' order by two figures: 1 is the same order, -1 the opposite one. Few arms say "
            f"little: the number of arms is in every row.{turned if page.columns.answers else ''}{_also_ordered(page)}",
            cls="dr-say",
        )
    )
    for outliers in page.sets:
        rows = [row for row in table_.to_pylist() if row["outliers"] == outliers]
        if not rows:
            continue
        kept = table_.filter([row["outliers"] == outliers for row in table_.to_pylist()])
        if len(page.sets) > 1:
            st.html(tag("p", tag("b", OUTLIER_LABELS[outliers]), cls="dr-key"))
        st.altair_chart(tau_heatmap(kept), alt=f"Kendall's tau between figures, {OUTLIER_LABELS[outliers]}")
    shown = [row for row in table_.to_pylist() if row["outliers"] in page.sets]
    with st.expander(f"As a table ({len(shown)} rows)"):
        st.html(_agreement_table(page, shown))
    csv_button(shown, name=f"{page.campaign.protocol_name}-agreement-{page.view.outliers}", key="agreement")


def _also_ordered(page: Page) -> str:
    """Arms that these orders hold although the overview ranks them with no other: all that have the one reference."""
    reasons = page.ranking().reasons
    arms = [arm for role in ("candidate", "follow-up") for arm in page.arms(role, filtered=False)]
    names = [arm.arm for arm in arms if arm.arm in reasons and not arm.reference]
    return f" In the orders though not ranked elsewhere: {', '.join(names)}." if names else ""


def _agreement_table(page: Page, rows: list[dict[str, Any]]) -> Html:
    several = len(page.sets) > 1
    head = [tag("th", word, scope="col") for word in ("figure", "and")]
    head += [tag("th", "outliers", scope="col")] if several else []
    words = ("tau", "arms", "pairs in the same order", "in the opposite order", "tied")
    head += [tag("th", word, scope="col", cls="dr-right") for word in words] + [tag("th", "note", scope="col")]
    body = []
    for row in sorted(rows, key=lambda row: (row["tau"] is None, row["tau"] or 0.0)):
        tau = "none" if row["tau"] is None else f"{row['tau']:.2f}"
        numbers = (tau, row["arms"], row["concordant"], row["discordant"], row["tied"])
        body.append(
            tag(
                "tr",
                tag("th", row["left"].replace("/", " "), scope="row"),
                tag("th", row["right"].replace("/", " "), scope="row"),
                [tag("td", row["outliers"])] if several else [],
                [tag("td", number, cls="dr-num dr-right") for number in numbers],
                tag("td", row["reason"], cls="dr-wrap dr-small"),
            )
        )
    return table("The least agreement first.", head, body, label="Agreement of figures")


show()
