"""Tasks that one of two arms passed and the other did not: counts with their test, and the tasks themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import streamlit as st

from dashboard import data
from dashboard.components.cells import table
from dashboard.components.export import csv_button
from dashboard.components.markup import Html, tag
from dashboard.figures import split_scope, write_number
from dashboard.frame import chip

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

PASSED_WORDS = {True: "passed", False: "failed", None: "not decided"}


def tasks_section(page: Page, arms: Sequence[ArmRecord]) -> None:
    """Draw the section for arms that may be compared; nothing where not two of them have tasks."""
    tables = {arm.arm: data.tasks(page.uri, arm.run_id, arm.complete) for arm in arms}
    with_tasks = [arm for arm in arms if tables[arm.arm].num_rows]
    if len(with_tasks) < 2:
        return
    st.subheader("Tasks that one passed and another did not", anchor=False)
    pairs = [
        row
        for left, right in combinations(with_tasks, 2)
        for outliers in page.sets
        if (row := _pair(page, left, right, outliers)) is not None
    ]
    if not pairs:
        st.html(tag("p", "No task lies in these positions.", cls="dr-say"))
        return
    verdicts = _verdicts(page, with_tasks, tables)
    differ = [row for row in verdicts if len({row[arm.arm] for arm in with_tasks}) > 1]
    words = f"{len(differ)} of {len(verdicts)} tasks went differently for these arms"
    st.html(tag("p", f"{words}; {len(verdicts) - len(differ)} that went alike are not listed.", cls="dr-say"))
    alpha = 1 - page.protocol.intervals.confidence
    st.html(_pairs_table(page, pairs, alpha))
    csv_button(pairs, name=f"{page.campaign.protocol_name}-task-pairs-{page.view.outliers}", key="task-pairs")
    if differ:
        st.html(_tasks_table(page, with_tasks, differ))
        csv_button(differ, name=f"{page.campaign.protocol_name}-tasks-that-differ", key="tasks")


def _pair(page: Page, left: ArmRecord, right: ArmRecord, outliers: str) -> dict[str, Any] | None:
    """The figures of ``left`` with ``right`` in the place of the reference; None where no task lies in the scope."""
    kind, name = split_scope(page.view.scope)
    found = data.task_pair(
        page.uri, left.run_id, right.run_id, page.campaign.run_id, left.complete and right.complete
    ).to_pylist()
    here = {
        row["statistic"]: row
        for row in found
        if (row["scope_kind"], row["scope"], row["outliers"]) == (kind, name, outliers)
    }
    if "lost" not in here:
        return None
    difference = here["difference"]
    return {
        "left": left.arm,
        "right": right.arm,
        "outliers": outliers,
        "n": here["lost"]["n"],
        "not_decided": here["lost"]["excluded"],
        "left_alone": here["gained"]["value"],
        "right_alone": here["lost"]["value"],
        "difference": difference["value"],
        "low": difference["low"],
        "high": difference["high"],
        "interval": difference["interval"],
        "p_sign_flip": here["p_sign_flip"]["value"],
        "sign_flip": here["p_sign_flip"]["reason"],
        "p_mcnemar": here["p_mcnemar"]["value"],
    }


def _pairs_table(page: Page, pairs: list[dict[str, Any]], alpha: float) -> Html:
    several = len(page.sets) > 1
    words = ["left", "right", *(["outliers"] if several else []), "left alone passed", "right alone passed"]
    words += ["difference of the rates", "sign-flip permutation"]
    head = [tag("th", word, scope="col") for word in words]
    head.append(tag("th", "McNemar", tag("span", "tasks independent", cls="dr-line dr-spec"), scope="col"))
    head.append(tag("th", "n, tasks", scope="col", cls="dr-right"))
    body = []
    for row in pairs:
        p = row["p_sign_flip"]
        said = [tag("span", row["sign_flip"], cls="dr-small dr-wrap")]
        if p is not None:
            mark = chip("differ", "above") if p < alpha else chip("not told apart", "plain")
            said = [tag("span", f"p {p:.3g}", cls="dr-line dr-num"), mark, *said]
        low, high = row["low"], row["high"]
        value = (
            "not known" if row["difference"] is None else write_number(row["difference"], "share", low=low, high=high)
        )
        between = ""
        if low is not None and high is not None:
            ends = [write_number(end, "share", low=low, high=high, bare=True) for end in (low, high)]
            between = f"[{ends[0]}, {ends[1]}]"
        left_out = f"{row['not_decided']:,} not decided for both" if row["not_decided"] else ""
        body.append(
            tag(
                "tr",
                tag("th", row["left"], scope="row"),
                tag("th", row["right"], scope="row"),
                [tag("td", row["outliers"])] if several else [],
                tag("td", _whole(row["left_alone"]), cls="dr-num", data_figure="left_alone"),
                tag("td", _whole(row["right_alone"]), cls="dr-num", data_figure="right_alone"),
                tag(
                    "td",
                    tag("span", value, cls="dr-line dr-num"),
                    tag("span", between, cls="dr-line dr-small dr-num", title=row["interval"] or None),
                ),
                tag("td", said, data_figure="sign_flip"),
                tag("td", "none" if row["p_mcnemar"] is None else f"p {row['p_mcnemar']:.3g}", cls="dr-num dr-grey"),
                tag("td", f"{row['n']:,}", tag("span", left_out, cls="dr-line dr-small"), cls="dr-num dr-right"),
                data_left=row["left"],
                data_right=row["right"],
                data_outliers=row["outliers"],
            )
        )
    caption = "Left minus right over the tasks that are decided for both. The sign-flip permutation of texts decides."
    return table(caption, head, body, label="Task pairs", wide=True)


def _whole(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.0f}"


def _verdicts(page: Page, arms: Sequence[ArmRecord], tables: Mapping[str, pa.Table]) -> list[dict[str, Any]]:
    """One row a task in the chosen positions, the reference's own first; a task an arm does not have is not decided."""
    kind, name = split_scope(page.view.scope)
    own = data.tasks(page.uri, page.campaign.run_id, page.campaign.complete)
    every = {page.campaign.reference: own} if own.num_rows else {}
    every |= {arm.arm: tables[arm.arm] for arm in arms}
    passed = {arm: {row["task"]: row["passed"] for row in found.to_pylist()} for arm, found in every.items()}
    rows: dict[str, dict[str, Any]] = {}
    for arm in arms:
        for row in tables[arm.arm].to_pylist():
            inside = kind == "all" or row["panel"] == name
            if inside and not (page.sets == ("without",) and row["outlier"]):
                said = {one: PASSED_WORDS[found.get(row["task"])] for one, found in passed.items()}
                rows.setdefault(
                    row["task"], {"task": row["task"], "kind": row["kind"], "window": row["window"], **said}
                )
    return list(rows.values())


def _tasks_table(page: Page, arms: Sequence[ArmRecord], rows: list[dict[str, Any]]) -> Html:
    reference = page.campaign.reference
    names = [*([reference] if reference in rows[0] else []), *(arm.arm for arm in arms)]
    head = [tag("th", word, scope="col") for word in ("task", "kind", "window")]
    head += [tag("th", f"{name} (reference)" if name == reference else name, scope="col") for name in names]
    body = [
        tag(
            "tr",
            tag("th", row["task"], scope="row"),
            tag("td", row["kind"]),
            tag("td", row["window"], cls="dr-wrap"),
            [tag("td", tag("b", row[name]) if row[name] != "passed" else row[name], data_arm=name) for name in names],
            data_task=row["task"],
        )
        for row in rows
    ]
    return table("", head, body, label="Tasks that differ", wide=True)
