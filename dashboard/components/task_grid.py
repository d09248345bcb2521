"""Tasks by arms: drift where the answer stands beside pass or fail, and whether the two go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dashboard.components.cells import table
from dashboard.components.markup import Html, tag
from dashboard.components.task_passes import pass_chip
from dashboard.figures import write_number
from dashboard.frame import chip
from drift_runs.generate.task_order import ALL, PAIRS
from drift_runs.generate.task_sentences import TITLES

if TYPE_CHECKING:
    from dashboard.frame import Page

LEAD = "flips"
"""The figure that the chart's ground and the first sentence are about."""
_SCHEMA = pa.schema(
    [
        ("task", pa.string()),
        ("arm", pa.string()),
        ("passed", pa.bool_()),
        ("drift", pa.float64()),
        ("shown", pa.string()),
    ]
)


class TaskGrid:
    """Table ``TASK_DRIFT`` of the page's campaign, tasks as rows and the chosen arms as columns."""

    def __init__(self, page: Page, drift: pa.Table, arms: Sequence[str]) -> None:
        self.page = page
        rows = drift.to_pylist()
        if page.sets == ("without",):
            rows = [row for row in rows if not row["outlier"]]
        there = {row["arm"] for row in rows}
        self.arms = [arm for arm in arms if arm in there]
        self.rows = {(row["task"], row["arm"]): row for row in rows if row["arm"] in self.arms}
        self.tasks = list(dict.fromkeys(task for task, _ in self.rows))

    def __bool__(self) -> bool:
        return bool(self.rows)

    def sentence(self) -> list[object]:
        """What fails where, in words."""
        failed = [row for row in self.rows.values() if row["passed"] is False]
        undecided = sum(row["passed"] is None for row in self.rows.values())
        said = f"{len(failed)} of {len(self.rows)} pairs of task and arm failed"
        said += f", {undecided} were not decided" if undecided else ""
        quiet = [row for row in failed if row["flips"] == 0]
        without = [row for row in self.rows.values() if row["passed"] and (row["flips"] or 0) > 0]
        parts: list[object] = [f"{said}. "]
        if quiet:
            parts.append(
                f"{len(quiet)} of these failures have no flip in the answer's span, so no flip foretold them. "
            )
        elif failed and all(row["flips"] for row in failed):
            parts.append("Each of these failures has a flip in the answer's span. ")
        if without:
            parts.append(f"{len(without)} pairs pass in spite of flips there. ")
        everywhere = [task for task in self.tasks if self._all_fail(task)]
        if everywhere:
            parts += ["Every arm shown fails ", tag("b", ", ".join(everywhere)), "."]
        return parts

    def _all_fail(self, task: str) -> bool:
        found = [self.rows[task, arm]["passed"] for arm in self.arms if (task, arm) in self.rows]
        return bool(found) and all(passed is False for passed in found)

    def html(self, caption: str) -> Html:
        head = [tag("th", "task", scope="col"), tag("th", f"{self.page.campaign.reference} (reference)", scope="col")]
        head += [tag("th", arm, scope="col") for arm in self.arms]
        return table(caption, head, [self._row(task) for task in self.tasks], label="Tasks by arms")

    def _row(self, task: str) -> Html:
        some = next(self.rows[task, arm] for arm in self.arms if (task, arm) in self.rows)
        where = [
            tag("span", f"{some['check']}, {some['window']} {some['from']:,} to {some['to']:,}", cls="dr-line dr-title")
        ]
        where += [chip("outlier window", "outlier")] if some["outlier"] else []
        cells = [tag("td", pass_chip(some["reference_passed"]), data_arm=self.page.campaign.reference)]
        cells += [tag("td", _cell(self.rows.get((task, arm))), data_arm=arm, data_figure="task") for arm in self.arms]
        return tag("tr", tag("th", task, where, scope="row"), cells, data_task=task)

    def chart_rows(self) -> pa.Table:
        rows = []
        for (task, arm), row in self.rows.items():
            drift = row[LEAD]
            rows.append(
                {
                    "task": task,
                    "arm": arm,
                    "passed": row["passed"],
                    "drift": None if drift is None else float(drift),
                    "shown": "not known" if drift is None else f"{drift:,}",
                }
            )
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def csv_rows(self) -> list[dict[str, object]]:
        return list(self.rows.values())


def _cell(row: dict[str, Any] | None) -> list[Html | None]:
    if row is None:
        return [tag("span", "not run", cls="dr-small")]
    lines: list[Html | None] = [pass_chip(row["passed"])]
    counts = [
        f"{row[name]:,} {words if row[name] != 1 else words[:-1]}"
        for name, words in (("flips", "flips"), ("strong_overturns", "strong overturns"))
        if row[name] is not None
    ]
    lines.append(tag("span", ", ".join(counts) or "flips not known", cls="dr-line dr-small"))
    worst = row["worst_p95_nats"]
    if worst is not None:
        lines.append(
            tag(
                "span",
                f"worst p95 {write_number(worst, 'nats')}",
                cls="dr-line dr-small dr-num",
                title=f"{row['spec']}, range {row['worst_range']} of the window",
            )
        )
    lines.append(tag("span", f"n {row['positions']:,}", cls="dr-line dr-small", title=row["reason"] or None))
    return lines


class TaskOrder:
    """Table ``TASK_ORDER``: rank correlations of drift with failure."""

    def __init__(self, page: Page, order: pa.Table) -> None:
        self.page = page
        self.rows = [row for row in order.to_pylist() if row["outliers"] in page.sets]

    def __bool__(self) -> bool:
        return bool(self.rows)

    def sentences(self) -> list[str]:
        """Of the pairs of task and arm, all tasks: what flips show, with and without the outliers."""
        return [row["says"] for row in self.rows if (row["over"], row["among"], row["figure"]) == (PAIRS, ALL, LEAD)]

    def html(self, caption: str) -> Html:
        several = len(self.page.sets) > 1
        words = ["figure", "over", "among the tasks"]
        words += ["outliers"] if several else []
        words += ["tau-b", "Spearman", "n", "failed", "what it shows"]
        head = [tag("th", word, scope="col") for word in words]
        return table(caption, head, [self._row(row, several=several) for row in self.rows], label="Drift and failure")

    def _row(self, row: dict[str, Any], *, several: bool) -> Html:
        spec = tag("span", row["spec"], cls="dr-line dr-spec") if row["spec"] else None
        return tag(
            "tr",
            tag("th", TITLES[row["figure"]], spec, scope="row"),
            tag("td", row["over"]),
            tag("td", row["among"] if row["among"] != ALL else "all"),
            tag("td", row["outliers"]) if several else None,
            tag("td", _correlation(row, "tau"), cls="dr-num", data_figure="tau"),
            tag("td", _correlation(row, "spearman"), cls="dr-num", data_figure="spearman"),
            tag("td", f"{row['n']:,}", _line(f"{row['excluded']:,} left out" if row["excluded"] else ""), cls="dr-num"),
            tag("td", f"{row['failed']:,}", cls="dr-num"),
            tag("td", _shows(row), cls="dr-narrow"),
            data_figure=row["figure"],
            data_over=row["over"],
            data_among=row["among"],
            data_outliers=row["outliers"],
        )


def _correlation(row: dict[str, Any], name: str) -> list[object]:
    value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if value is None:
        return ["none"]
    interval = f"[{low:.2f}, {high:.2f}]" if low is not None and high is not None else "no interval"
    return [tag("span", f"{value:.2f}", cls="dr-value"), _line(interval)]


def _shows(row: dict[str, Any]) -> list[Html | None]:
    """In a word what the sentence says, which stands in the CSV whole."""
    if row["tau"] is None:
        return [_line(row["reason"])]
    if row["tau_low"] is None:
        word = "nothing beyond these answers"
    elif row["tau_low"] <= 0 <= row["tau_high"]:
        word = "inconclusive: the interval holds 0"
    elif "inconclusive" in row["says"]:
        word = "inconclusive: too few clusters"
    else:
        word = f"{'more' if row['tau'] > 0 else 'less'} drift goes with more failures: an order and no cause"
    return [tag("span", word, cls="dr-line"), _line(row["reason"])]


def _line(words: str) -> Html | None:
    return tag("span", words, cls="dr-line dr-small dr-wrap") if words else None
