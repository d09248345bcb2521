"""Which tasks the arms pass on their own: how many, against the reference with its test, and what they wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import table
from dashboard.components.generated import Generated
from dashboard.components.markup import Html, tag, visible
from dashboard.figures import is_withheld, write_interval, write_value
from dashboard.frame import chip
from drift_runs.charts.task_matrix import MARKS
from drift_runs.generate.task_figures import (
    DIFFERENCE,
    P_MCNEMAR,
    P_SIGN_FLIP,
    RATE,
    SPEC,
    task_sentence,
)

if TYPE_CHECKING:
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

TEXT_CHARACTERS = 600
"""A longer answer is cut in the table; the CSV has all of it."""


class TaskPasses:
    """Figures ``task.passed`` of the reference and of every arm, over all tasks."""

    def __init__(self, found: Generated, arms: list[ArmRecord]) -> None:
        self.found = found
        self.sets = found.page.sets
        self.arms = found.arms(arms, SPEC)

    def __bool__(self) -> bool:
        return bool(self.arms) or self.figure(self.found.reference, RATE, "with") is not None

    def figure(self, arm: str, statistic: str, outliers: str) -> Figure | None:
        return self.found.figure(arm, SPEC, statistic, outliers)

    def sentences(self) -> list[str]:
        """One an arm that is compared, in the words of the figures themselves."""
        confidence = self.found.page.protocol.intervals.confidence
        said = (
            task_sentence(self.found.book.table, arm=arm.arm, confidence=confidence)
            for arm in self.arms
            if arm.role in ("candidate", "follow-up")
        )
        return [words for words in said if words]

    def html(self, caption: str) -> Html:
        several = len(self.sets) > 1
        head = [tag("th", "arm", scope="col")]
        head += [tag("th", "outliers", scope="col")] if several else []
        words = ("passed", "lost", "gained", "difference", "sign-flip p", "McNemar p", "n, tasks")
        head += [tag("th", word, scope="col") for word in words]
        names = [(self.found.reference, "reference"), *((arm.arm, arm.role) for arm in self.arms)]
        body = []
        for name, role in names:
            for outliers in self.sets:
                if self.figure(name, RATE, outliers) is not None:
                    body.append(self._row(name, role, outliers, several=several))
        return table(caption, head, body, label="Tasks passed")

    def _row(self, name: str, role: str, outliers: str, *, several: bool) -> Html:
        found = {
            statistic: self.figure(name, statistic, outliers)
            for statistic in (RATE, "count", "lost", "gained", DIFFERENCE, P_SIGN_FLIP, P_MCNEMAR)
        }
        rate, count = found[RATE], found["count"]
        n = rate.n if rate is not None else 0
        left_out = rate.excluded if rate is not None else 0
        cells = [tag("td", _passed(rate, count), data_figure="passed")]
        if role == "reference":
            cells.append(tag("td", tag("span", "the reference itself", cls="dr-small"), colspan=5))
        else:
            cells += [
                tag("td", _number(found[key], "count"), cls="dr-num", data_figure=key) for key in ("lost", "gained")
            ]
            cells.append(tag("td", _number(found[DIFFERENCE], "share"), cls="dr-num", data_figure="difference"))
            cells += [tag("td", _p(found[key]), data_figure=key) for key in (P_SIGN_FLIP, P_MCNEMAR)]
        unknown = tag("span", f"{left_out:,} not decided", cls="dr-line dr-small") if left_out else None
        mark = chip(role, "plain") if role != "candidate" else None
        return tag(
            "tr",
            tag("th", name, " ", mark, scope="row"),
            tag("td", outliers) if several else None,
            cells,
            tag("td", f"{n:,}", unknown, cls="dr-num dr-right"),
            data_arm=name,
            data_outliers=outliers,
        )

    def csv_rows(self) -> list[dict[str, object]]:
        """Every figure of the tasks, those of panels and kinds too."""
        return [
            {"arm": figure.arm, **figure_fields(figure)}
            for figure in self.found.book.rows(spec=SPEC, outliers=list(self.sets))
        ]


def answer_rows(found: Generated, arm: str, outliers: Sequence[str]) -> list[dict[str, Any]]:
    """An arm's answers beside the reference's, failed ones first, undecided ones next."""
    theirs = {row["task"]: row for row in found.tasks(found.reference).to_pylist()}
    rows = [row for row in found.tasks(arm).to_pylist() if row["arm"] == arm]
    if tuple(outliers) == ("without",):
        rows = [row for row in rows if not row["outlier"]]
    rank = {False: 0, None: 1, True: 2}
    rows.sort(key=lambda row: (rank[row["passed"]], rank[theirs.get(row["task"], row)["passed"]] * -1))
    return [
        {
            **row,
            "reference_passed": theirs[row["task"]]["passed"] if row["task"] in theirs else None,
            "reference_text": theirs[row["task"]]["text"] if row["task"] in theirs else None,
        }
        for row in rows
    ]


def answer_table(rows: Sequence[dict[str, Any]], caption: str, *, reference: str, arm: str) -> Html:
    """What both wrote, task by task."""
    words = ("task", f"{arm}: pass or fail", f"{arm} wrote", f"{reference} (reference)", f"{reference} wrote")
    head = [tag("th", word, scope="col") for word in words]
    body = []
    for row in rows:
        where = [tag("span", f"window {row['window']}", cls="dr-line dr-title dr-wrap")]
        where += [tag("span", f"check {row['check']}", cls="dr-line dr-title")]
        where += [chip("outlier window", "outlier")] if row["outlier"] else []
        why = tag("span", visible(row["reason"]), cls="dr-line dr-small dr-wrap") if row["reason"] else None
        known = row["reference_text"] is not None
        body.append(
            tag(
                "tr",
                tag("th", row["task"], where, scope="row"),
                tag("td", pass_chip(row["passed"]), why, cls="dr-narrow", data_figure="passed"),
                tag("td", _answer(row["text"]), cls="dr-text"),
                tag("td", pass_chip(row["reference_passed"]) if known else "not known"),
                tag("td", _answer(row["reference_text"]) if known else "not known", cls="dr-text"),
                data_task=row["task"],
                data_arm=arm,
            )
        )
    return table(caption, head, body, label="Answers to tasks")


def pass_chip(passed: bool | None) -> Html:
    """Pass, fail or undecided, as mark and word."""
    return chip(MARKS[passed], {True: "within", False: "above", None: "inconclusive"}[passed])


def _answer(text: str) -> str:
    shown = text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]} …"
    return visible(shown) or "(nothing)"


def _passed(rate: Figure | None, count: Figure | None) -> list[Html | None]:
    if rate is None or is_withheld(rate) or count is None or count.value is None:
        return [tag("span", rate.reason if rate is not None else "not measured", cls="dr-small")]
    return [
        tag("span", f"{count.value:,.0f} of {count.n:,}", cls="dr-value dr-num"),
        tag(
            "span",
            f"{write_value(rate, 'share')} {write_interval(rate, 'share')}".strip(),
            cls="dr-line dr-small dr-num",
        ),
        tag("span", rate.reason, cls="dr-line dr-small dr-wrap") if rate.reason and rate.low is None else None,
    ]


def _number(figure: Figure | None, unit: str) -> list[Html | str | None]:
    if figure is None or figure.value is None:
        return [tag("span", figure.reason if figure is not None else "not measured", cls="dr-small dr-wrap")]
    interval = write_interval(figure, unit)
    return [write_value(figure, unit), tag("span", interval, cls="dr-line dr-small dr-num") if interval else None]


def _p(figure: Figure | None) -> list[Html | str | None]:
    if figure is None:
        return [tag("span", "not measured", cls="dr-small")]
    if figure.value is None:
        return [tag("span", figure.reason, cls="dr-small dr-wrap")]
    reason = tag("span", figure.reason, cls="dr-line dr-small dr-wrap") if figure.reason else None
    return [tag("span", f"{figure.value:.3g}", cls="dr-num"), reason]
