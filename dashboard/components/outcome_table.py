"""Outcomes of roots by arm beside the null: the table, what the chart draws of it, and what is seen in words."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dashboard.components.arm_table import figure_fields
from dashboard.components.branched import Branched, Followed
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.markup import Html, tag
from dashboard.figures import differs_by_outliers, is_withheld, write_interval, write_number, write_value
from dashboard.frame import chip
from drift_runs.charts.outcomes_by_arm import OUTCOME_COLOURS, OUTCOME_WORDS
from drift_runs.measure.figures import Figure

LABEL = "Outcomes"
SHARES = (("invalid", "invalid"), ("invalid, both too", "invalid_any"), ("resolved", "resolved"))
LEVELS = ("p25", "p50", "p75")
SET_WORDS = {"with": "with outliers", "without": "without"}


def outcome_chip(outcome: str, words: str = "") -> Html:
    """An outcome as a word with its colour beside it."""
    hue = OUTCOME_COLOURS.get(outcome, "")
    style = f"--dr-hue:{hue}" if hue else None
    return tag("span", words or outcome, cls="dr-chip", style=style, title=OUTCOME_WORDS.get(outcome))


class OutcomeTable:
    """Outcomes of some arms in the page's pair of futures; arms without figures of it are left out and named."""

    def __init__(self, branched: Branched, arms: Sequence[Followed]) -> None:
        self.branched = branched
        self.sets = branched.page.sets
        self.arms = [one for one in arms if branched.figure(one.name, "explored", self.sets[0]) is not None]
        self.absent = [one.name for one in arms if one not in self.arms]
        """Arms that followed roots, and none of this pair."""

    def count(self, one: Followed, statistic: str, outliers: str) -> int:
        found = self.branched.figure(one.name, statistic, outliers)
        return 0 if found is None or found.value is None else int(found.value)

    @property
    def there(self) -> list[str]:
        """Outcomes that any root has, in the order in which they are tried."""
        return [
            outcome
            for outcome in OUTCOME_WORDS
            if any(self.count(one, outcome, choice) for one in self.arms for choice in self.sets)
        ]

    def html(self) -> Html:
        both = len(self.sets) > 1
        head = [tag("th", "arm", scope="col")]
        head += [tag("th", "windows", scope="col")] if both else []
        head.append(tag("th", "explored", tag("span", "roots", cls="dr-line dr-spec"), scope="col"))
        head += [tag("th", outcome_chip(outcome), scope="col", cls="dr-right") for outcome in self.there]
        head += [header_cell(self.branched.column(words, statistic)) for words, statistic in SHARES]
        head.append(
            tag(
                "th",
                "tokens until they run together",
                tag("span", f"{self.branched.spec}.resync p25 / p50 / p75", cls="dr-line dr-spec"),
                scope="col",
            )
        )
        body = [self._row(one, choice, both) for one in self.arms for choice in self.sets]
        return table(self._caption(), head, body, label=LABEL, wide=True)

    def _caption(self) -> str:
        none = [outcome for outcome in OUTCOME_WORDS if outcome not in self.there]
        words = (
            "Counts of roots. Invalid: malformed of the explored roots; beside it with those where both sides are "
            "broken, and the share that came to an end at all. It is no rate of failing tools. Floor: the null with "
            "the most invalid futures."
        )
        return f"{words} No root of any arm is {', '.join(none)}." if none else words

    def _row(self, one: Followed, outliers: str, both: bool) -> Html:
        explored = self.branched.figure(one.name, "explored", outliers)
        cells = [self._name(one, outliers)]
        cells += [tag("td", SET_WORDS[outliers])] if both else []
        count = self.count(one, "explored", outliers)
        of = explored.reason if explored is not None else ""
        cells.append(
            tag(
                "td",
                tag("span", f"{count:,}", cls="dr-value dr-num"),
                tag("span", of, cls="dr-line dr-small") if of else None,
                data_figure="explored",
            )
        )
        for outcome in self.there:
            number = self.count(one, outcome, outliers)
            kind = "dr-num" if number else "dr-num dr-same"
            cells.append(tag("td", tag("span", f"{number:,}", cls=kind), data_figure=outcome, cls="dr-right"))
        for words, statistic in SHARES:
            found = self.branched.figure(one.name, statistic, outliers)
            lines = figure_cell(found, self.branched.column(words, statistic))
            why = found.reason if found is not None and found.low is None and not is_withheld(found) else ""
            if why:
                lines.append(tag("span", "no interval", cls="dr-line dr-small", title=why))
            cells.append(tag("td", lines, data_figure=statistic))
        cells.append(tag("td", self._resync(one, outliers), data_figure="resync"))
        return tag("tr", cells, data_arm=one.name, data_outliers=outliers)

    def _name(self, one: Followed, outliers: str) -> Html:
        marks = []
        if one.null:
            marks.append(chip("null", "plain", "A floor: the same weights once more. What it shows is noise."))
        if one.record.role in ("follow-up", "launch"):
            marks.append(chip(one.record.role))
        if one.constrained:
            words = f"Decoded under a grammar with the weights of {one.record.arm}: only what it writes is constrained."
            marks.append(chip("constrained", "warn", words))
        if one.record.reference:
            marks.append(chip(f"against {one.record.reference}"))
        pair = [self.branched.figure(one.name, "explored", choice) for choice in ("with", "without")]
        if outliers == "with" and differs_by_outliers(*pair):
            marks.append(chip("incl. outlier", "outlier", "Roots of this row lie in a window declared as an outlier."))
        title = one.title if one.title != one.name else ""
        return tag(
            "th",
            one.name,
            tag("span", title, cls="dr-line dr-title dr-wrap") if title else None,
            tag("span", marks, cls="dr-line") if marks else None,
            scope="row",
        )

    def _resync(self, one: Followed, outliers: str) -> list[Html]:
        found = [self.branched.figure(one.name, level, outliers, ".resync") for level in LEVELS]
        if not any(found):
            return [tag("span", "not measured", cls="dr-line dr-small")]
        why = next(figure.reason for figure in found if figure is not None)
        words = " / ".join(_tokens(figure) for figure in found)
        lines = [tag("span", words, cls="dr-num", title=why)]
        together = self.branched.figure(one.name, "count", outliers, ".resync")
        if together is not None and together.value is not None:
            lines.append(
                tag("span", f"{together.value:,.0f} of {together.n:,} ran together", cls="dr-line dr-small", title=why)
            )
        median = found[1]
        if median is not None and median.value is not None and (interval := write_interval(median, "tokens")):
            lines.append(tag("span", f"p50 {interval}", cls="dr-line dr-small dr-num", title=median.interval))
        return lines

    def chart_rows(self) -> pa.Table:
        """What :func:`outcomes_by_arm` draws: one bar an arm and set of windows."""
        rows = []
        for one in self.arms:
            for choice in self.sets:
                explored = self.count(one, "explored", choice)
                name = f"{one.name}, {SET_WORDS[choice]}" if len(self.sets) > 1 else one.name
                for outcome in OUTCOME_WORDS:
                    rows.append(
                        {
                            "arm": one.name,
                            "label": f"{name} (n {explored:,})",
                            "null": one.null,
                            "outcome": outcome,
                            "count": self.count(one, outcome, choice),
                            "explored": explored,
                        }
                    )
        return pa.Table.from_pylist(rows)

    def sentence(self) -> list[object]:
        """Who breaks most, who least, and what the null does.

        Arms without rows are apart: their roots are places of others.
        """
        outliers = self.sets[0]
        ranked = [
            (figure.value, one, figure)
            for one in self.arms
            if not one.null
            and one.record.role != "launch"
            and one.record.scored
            and (figure := self.branched.figure(one.name, "invalid", outliers)) is not None
            and figure.value is not None
        ]
        if not ranked:
            return ["No candidate has an explored root here: nothing can be said of what it writes. ", self._null()]
        highest, lowest = max(value for value, _, _ in ranked), min(value for value, _, _ in ranked)
        parts: list[object] = ["With the declared outlier windows: "] if len(self.sets) > 1 else []
        if highest == 0:
            names = "" if len(ranked) > 1 else f" of {ranked[0][1].name}"
            parts.append(f"No explored root{names} came to a broken structure that the reference does not break. ")
        else:
            worst = [(one, figure) for value, one, figure in ranked if value == highest]
            verb = "breaks" if len(worst) == 1 else "break"
            parts += [tag("b", ", ".join(one.name for one, _ in worst)), f" {verb} most: ", _said(worst[0][1]), ". "]
            if len(ranked) > len(worst):
                best = [(one, figure) for value, one, figure in ranked if value == lowest]
                verb = "breaks" if len(best) == 1 else "break"
                names = ", ".join(one.name for one, _ in best)
                parts += [tag("b", names), f" {verb} least: ", _said(best[0][1]), ". "]
        often = max(self.there, key=lambda name: sum(self.count(one, name, outliers) for _, one, _ in ranked))
        total = sum(self.count(one, "explored", outliers) for _, one, _ in ranked)
        number = sum(self.count(one, often, outliers) for _, one, _ in ranked)
        parts += [f"The commonest outcome is {often}: {number:,} of {total:,} roots. ", self._null()]
        return parts

    def _null(self) -> str:
        outliers = self.sets[0]
        floors = [one for one in self.arms if one.null and self.count(one, "explored", outliers)]
        if not floors:
            return "No floor was followed in this pair: there is no null to set this against."
        explored = sum(self.count(one, "explored", outliers) for one in floors)
        invalid = sum(self.count(one, "malformed", outliers) for one in floors)
        same = sum(self.count(one, "recovers", outliers) for one in floors)
        names = ", ".join(one.name for one in floors)
        return f"The null ({names}): {invalid:,} of {explored:,} roots are broken, {same:,} recover."

    def csv_rows(self) -> list[dict[str, object]]:
        found = self.branched.csv_figures([one.name for one in self.arms])
        return [{"arm": figure.arm, **figure_fields(figure)} for figure in found]


def _tokens(figure: Figure | None) -> str:
    if figure is None:
        return "not measured"
    return "not reached" if figure.value is None else write_number(figure.value, "count")


def _said(figure: Figure) -> str:
    interval = write_interval(figure, "share")
    count = round((figure.value or 0.0) * figure.n)
    share = f"{write_value(figure, 'share')} {interval}".strip()
    return f"{count:,} of {figure.n:,} explored roots, {share}"
