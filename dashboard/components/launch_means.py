"""How far the means of an arm lie apart over its launches, and how many windows have the same rows in all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import data
from dashboard.components.cells import table
from dashboard.components.compared_arms import arm_cell
from dashboard.components.export import csv_button
from dashboard.components.markup import tag
from dashboard.figures import is_withheld, write_number, write_value

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord


def launch_means(page: Page) -> None:
    """How far the means of an arm lie apart over its launches, and how many windows have the same rows."""
    st.subheader("Means between launches", anchor=False)
    repeats = page.arms("launch")
    of = {name: [arm for arm in repeats if arm.arm.rpartition("#")[0] == name] for name in _repeated(repeats)}
    several = len(page.sets) > 1
    body, rows = [], []
    for arm in [*page.arms("candidate", filtered=False), *page.arms("follow-up", filtered=False)]:
        for outliers in page.sets if arm.arm in of else ():
            found = {
                name: _launch_figure(page, arm, f"mean.launches_{name}", outliers)
                for name in ("mean", "min", "max", "difference")
            }
            same = _same_windows(page, [arm, *of[arm.arm]], outliers)
            cells = [
                tag(
                    "td",
                    "not known" if figure is None else write_value(figure, "nats"),
                    cls="dr-num",
                    data_figure=f"launches_{name}",
                )
                for name, figure in found.items()
            ]
            figure = found["difference"]
            n = "" if figure is None else f"{figure.n:,}"
            why = "" if figure is None else figure.reason
            body.append(
                tag(
                    "tr",
                    arm_cell(arm, colour=page.colours.get(arm.arm, "")),
                    [tag("td", outliers)] if several else [],
                    tag("td", why or "not known", cls="dr-wrap"),
                    cells,
                    tag("td", same, cls="dr-wrap", data_figure="launches_windows"),
                    tag("td", n, cls="dr-num dr-right"),
                    data_arm=arm.arm,
                    data_outliers=outliers,
                )
            )
            values = {name: None if item is None else item.value for name, item in found.items()}
            rows.append({"arm": arm.arm, "outliers": outliers, **values, "windows": same, "n": n})
    st.html(tag("p", _launch_words(page, rows, repeats), cls="dr-say"))
    if not body:
        return
    spec = tag("span", page.columns.headline, cls="dr-line dr-spec")
    head = [tag("th", "arm", scope="col")]
    head += [tag("th", "outliers", scope="col")] if several else []
    head += [tag("th", "launches", scope="col")]
    words = ("mean over launches", "smallest mean", "largest mean", "largest minus smallest")
    head += [tag("th", f"{word}, nats", spec, scope="col") for word in words]
    head += [tag("th", "windows with the same rows", scope="col"), tag("th", "n", scope="col", cls="dr-right")]
    st.html(table("", head, body, label="Means between launches"))
    csv_button(rows, name=f"{page.campaign.protocol_name}-launches-{page.view.outliers}", key="launches")


def _repeated(repeats: list[ArmRecord]) -> list[str]:
    return list(dict.fromkeys(arm.arm.rpartition("#")[0] for arm in repeats))


def _launch_figure(page: Page, arm: ArmRecord, statistic: str, outliers: str) -> Figure | None:
    found = page.book.rows(
        arm=arm.arm,
        scope_kind="all",
        scope="all",
        spec=page.columns.headline,
        statistic=statistic,
        outliers=outliers,
    )
    return found[0] if found and not is_withheld(found[0]) else None


def _same_windows(page: Page, arms: list[ArmRecord], outliers: str) -> str:
    """Windows whose row hashes are equal in all launches, of those where every launch has one."""
    declared = {window for window, _ in page.campaign.outliers} if outliers == "without" else set()
    hashes = []
    for arm in arms:
        stored = data.determinism(page.uri, arm.run_id, arm.complete)
        hashes.append(dict(zip(stored["window"].to_pylist(), stored["window_hash"].to_pylist(), strict=True)))
    known = [
        window
        for window in hashes[0]
        if window not in declared and all(found.get(window) is not None for found in hashes)
    ]
    if not known:
        return "not known: no hash of these windows was kept"
    equal = sum(len({found[window] for found in hashes}) == 1 for window in known)
    return f"{equal:,} of {len(known):,}"


def _launch_words(page: Page, rows: list[dict], repeats: list[ArmRecord]) -> str:
    if not repeats:
        return (
            "No candidate was launched more than once: how far a second launch would move its mean is not known. "
            "A protocol asks for it with launches of an arm."
        )
    known = [row for row in rows if row["difference"] is not None]
    if not known:
        return "Candidates were launched again, but no mean over launches is known."
    most = max(known, key=lambda row: row["difference"])
    share = most["difference"] / most["mean"] if most["mean"] else 0.0
    return (
        f"The means of {most['arm']} lie farthest apart: {write_number(most['difference'], 'nats')} nats between "
        f"launches, {write_number(share, 'share')} of its mean over them."
    )
