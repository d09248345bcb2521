"""The history of a figure as a table: a campaign a row, an arm a column, what changed beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dashboard.components.cells import table
from dashboard.components.history_points import Apart, History, Step, when
from dashboard.components.markup import Html, tag
from dashboard.figures import write_number
from dashboard.frame import chip
from drift_runs.charts.history_lines import CHANGES

MARKS = {"above": "\u25b2", "within": "\u25cf", "undecided": "\u25c6", "first": "\u25a0"}
TRAVELLED = (
    "It compares with the rows of a reference that another run took. Its figures hold what lies between the two "
    "machines too, so it is joined with campaigns of the same rows only."
)
CHIPS = {"above": "above", "within": "within", "undecided": "inconclusive", "first": "plain"}


def history_table(history: History, unit: str, caption: str) -> Html:
    """Newest campaign first."""
    head = [tag("th", "campaign", scope="col"), tag("th", "changed around it", scope="col")]
    head += [tag("th", arm, scope="col") for arm in history.arms]
    body = []
    for at in range(len(history.campaigns) - 1, -1, -1):
        campaign = history.campaigns[at]
        around = history.around(at)
        words = [tag("span", word, cls="dr-line dr-small dr-wrap") for word in around]
        nothing = tag("span", "first shown" if at == 0 else "nothing that is recorded", cls="dr-small")
        mark = None
        if campaign.reference_run:
            mark = tag("span", chip("reference travelled", "plain", TRAVELLED), cls="dr-line")
            mark = [mark, _line(f"rows of run {campaign.reference_run[:8]}")]
        cells = [
            tag("td", _cell(history.steps.get((campaign.run_id, arm)), unit), data_arm=arm, data_figure="history")
            for arm in history.arms
        ]
        lead = tag("th", when(campaign), _line(campaign.run_id[:8]), mark, scope="row")
        row = tag("tr", lead, tag("td", words or nothing, cls="dr-reasons"), cells, data_campaign=campaign.run_id)
        body.append(row)
    return table(caption, head, body, label="History")


def _cell(step: Step | None, unit: str) -> list[Html | None]:
    if step is None:
        return [tag("span", "not measured", cls="dr-small")]
    row, change = step.row, step.change
    mark = chip(f"{MARKS[change.kind]} {CHANGES[change.kind]}", CHIPS[change.kind], change.reason or None)
    if row["value"] is None or row["state"] == "withheld":
        return [tag("span", "withheld", cls="dr-line dr-grey"), _line(row["reason"]), mark]
    low, high = row["low"], row["high"]
    interval = "no interval"
    if low is not None and high is not None:
        ends = (write_number(end, unit, low=low, high=high, bare=True) for end in (low, high))
        interval = f"[{', '.join(ends)}]"
    floor = f"floor {write_number(step.floor, unit, digits=2)}" if step.floor is not None else "no floor"
    return [
        tag("span", write_number(row["value"], unit, low=low, high=high), cls="dr-value dr-num"),
        tag("span", interval, cls="dr-line dr-small dr-num", title=row["interval"] or None),
        _line(f"n {row['n']:,}"),
        _line(floor),
        mark,
        _line(change.reason) if change.kind == "undecided" else None,
    ]


def apart_table(apart: Sequence[Apart], titles: Mapping[str, str]) -> Html:
    """Campaigns that are not drawn, each with the reason."""
    head = [tag("th", words, scope="col") for words in ("campaign", "why it stands apart")]
    body = [
        tag(
            "tr",
            tag("th", when(item.campaign), _line(titles.get(item.campaign.run_id, "")), scope="row"),
            tag("td", item.why, cls="dr-wrap"),
            data_campaign=item.campaign.run_id,
        )
        for item in reversed(apart)
    ]
    return table("", head, body, label="Campaigns apart")


def history_csv(histories: Sequence[History]) -> list[dict[str, object]]:
    """Every point with its change, oldest first."""
    rows = []
    for history in histories:
        for at, campaign in enumerate(history.campaigns):
            for arm in history.arms:
                step = history.steps.get((campaign.run_id, arm))
                if step is None:
                    continue
                rows.append(
                    {
                        "campaign": campaign.run_id,
                        "started_ms": campaign.started_ms,
                        "arm": arm,
                        **{name: step.row[name] for name in ("role", "outliers", "spec", "statistic", "value")},
                        **{name: step.row[name] for name in ("low", "high", "interval", "n", "state", "reason")},
                        "floor_value": step.floor,
                        "change": step.change.kind,
                        "difference": step.change.difference,
                        "why": step.change.reason,
                        "around": "; ".join(history.around(at)),
                        "reference_run": campaign.reference_run,
                    }
                )
    return rows


def _line(words: str) -> Html | None:
    return tag("span", words, cls="dr-line dr-small dr-wrap") if words else None
