"""Every headline figure with the declared outlier windows and without them, and what they make of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dashboard.components.cells import figure_cell, table
from dashboard.components.compared_arms import arm_cell
from dashboard.components.markup import Html, tag
from dashboard.figures import (
    ANSWERS,
    FLIP,
    FLIP_STRICT,
    STRONG,
    STRONG_RATE,
    Column,
    is_withheld,
    short_name,
    write_number,
)
from dashboard.frame import chip

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

_QUANTILES = ("p50", "p90", "p95", "p99", "p99.9", "max")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One figure of one arm, both ways."""

    arm: ArmRecord
    column: Column
    with_: Figure | None
    without: Figure | None

    @property
    def difference(self) -> float | None:
        """With minus without; None where either is withheld or not measured."""
        if self.with_ is None or self.without is None or is_withheld(self.with_) or is_withheld(self.without):
            return None
        return (self.with_.value or 0.0) - (self.without.value or 0.0)

    @property
    def share(self) -> float | None:
        """The difference as a share of the figure without; None where that is not positive."""
        if self.difference is None or self.without is None or not (self.without.value or 0.0) > 0:
            return None
        return self.difference / (self.without.value or 1.0)


def headline_columns(page: Page) -> tuple[Column, ...]:
    """Every figure that leads a table somewhere, in the order of the overview."""
    columns = page.columns
    spec, name = columns.headline, short_name(columns.headline)

    def of(statistic: str, words: str, unit: str = "nats") -> Column:
        return Column(key=statistic, header=f"{name} {words}", spec=spec, statistic=statistic, unit=unit)

    return (
        FLIP,
        FLIP_STRICT,
        columns.mean,
        *(columns.p95 if item == "p95" else of(item, f"{item}, nats") for item in _QUANTILES),
        of("tail_share", "share of the top 5 %", "share"),
        columns.worst,
        STRONG,
        STRONG_RATE,
        *([ANSWERS] if columns.answers else []),
    )


def pairs_of(page: Page, arms: list[ArmRecord]) -> list[Pair]:
    """Every figure that an arm has, arms in order. What neither set measured is left out."""
    found = []
    for arm in arms:
        for column in headline_columns(page):
            pair = Pair(
                arm=arm,
                column=column,
                with_=page.figure(arm.arm, column, "with"),
                without=page.figure(arm.arm, column, "without"),
            )
            if pair.with_ is not None or pair.without is not None:
                found.append(pair)
    return found


def pair_words(pairs: list[Pair], headline: Column) -> str:
    """How far the declared windows move the headline's mean, and whether they change an order."""
    means = [pair for pair in pairs if pair.column == headline and pair.share is not None and pair.arm.role != "floor"]
    if not means:
        return "No mean is known both ways."
    most = max(means, key=lambda pair: abs(pair.share or 0.0))
    words = (
        f"The declared windows move the mean of {most.arm.arm} most: {_signed(most.share or 0.0, 'share')} of what it "
        "is without them."
    )
    orders = [
        [pair.arm.arm for pair in sorted(means, key=lambda pair: -value(pair))]
        for value in (lambda pair: pair.with_.value or 0.0, lambda pair: pair.without.value or 0.0)
    ]
    same = orders[0] == orders[1]
    changed = sum(left != right for left, right in zip(*orders, strict=True))
    if len(means) > 1:
        words += (
            " By mean the arms keep their order."
            if same
            else f" By mean {changed} of {len(means)} arms have another place without them."
        )
    verdicts = [
        pair.arm.arm
        for pair in means
        if pair.with_ and pair.without and pair.with_.verdict != pair.without.verdict and pair.with_.verdict
    ]
    return words + (f" The verdict changes for {', '.join(verdicts)}." if verdicts else "")


def pairs_table(page: Page, pairs: list[Pair]) -> Html:
    """One row a figure; the set that the switch chooses in full ink."""
    words = ("arm", "figure", "with", "without", "with minus without", "n with", "n without")
    head = [tag("th", word, scope="col", cls="dr-right" if word.startswith("n ") else None) for word in words]
    count: dict[str, int] = {}
    for pair in pairs:
        count[pair.arm.arm] = count.get(pair.arm.arm, 0) + 1
    body, seen = [], set()
    for pair in pairs:
        lead = []
        if pair.arm.arm not in seen:
            seen.add(pair.arm.arm)
            lead = [arm_cell(pair.arm, colour=page.colours.get(pair.arm.arm, ""), rowspan=count[pair.arm.arm])]
        body.append(_row(page, pair, lead))
    return table("", head, body, label="Aggregates with and without outliers")


def _row(page: Page, pair: Pair, lead: list[Html]) -> Html:
    column = pair.column
    cells = []
    for outliers, figure in (("with", pair.with_), ("without", pair.without)):
        # Floors and verdicts stand in Overview; here two numbers are set against each other.
        shown = (
            None if figure is None else replace(figure, floor="", reason=figure.reason if is_withheld(figure) else "")
        )
        ink = None if outliers in page.sets else "dr-grey"
        cells.append(
            tag("td", tag("div", figure_cell(shown, column), cls=ink), data_figure=column.key, data_outliers=outliers)
        )
    badge = chip("incl. outlier", "outlier") if page.includes_outliers(pair.arm.arm, column) else None
    return tag(
        "tr",
        lead,
        tag(
            "td",
            column.header,
            tag("span", column.spec, cls="dr-line dr-spec"),
            tag("span", badge, cls="dr-line") if badge else None,
        ),
        cells,
        tag("td", _difference(pair), data_figure=f"{column.key}.difference"),
        *(
            tag("td", "" if figure is None else f"{figure.n:,}", cls="dr-num dr-right", data_figure=f"{column.key}.n")
            for figure in (pair.with_, pair.without)
        ),
        data_arm=pair.arm.arm,
        data_row=column.key,
    )


def _difference(pair: Pair) -> list[Html]:
    if pair.difference is None:
        return [tag("span", "not known", cls="dr-grey")]
    unit = "points" if pair.column.unit == "share" else pair.column.unit
    lines = [tag("span", _signed(pair.difference, unit), cls="dr-num")]
    if pair.share is not None and pair.difference:
        lines.append(tag("span", f"{_signed(pair.share, 'share')} of without", cls="dr-line dr-small dr-num"))
    if pair.with_ and pair.without and pair.with_.named != pair.without.named:
        lines.append(tag("span", "of another range", cls="dr-line dr-small"))
    return lines


def _signed(value: float, unit: str) -> str:
    """A number with its sign; ``points`` for a difference of shares, in percentage points."""
    if unit == "points":
        return f"{value * 100:+.2f} points" if value else "0"
    words = write_number(abs(value), unit, digits=2)
    return words if words.startswith("0") and not words.strip("0. %") else f"{'-' if value < 0 else '+'}{words}"


def pair_rows(pairs: list[Pair]) -> list[dict[str, object]]:
    """The same for a CSV, at full precision."""
    rows = []
    for pair in pairs:
        row: dict[str, object] = {
            "arm": pair.arm.arm,
            "role": pair.arm.role,
            "spec": pair.column.spec,
            "statistic": pair.column.statistic,
        }
        for name, figure in (("with", pair.with_), ("without", pair.without)):
            row |= {
                name: None if figure is None or is_withheld(figure) else figure.value,
                f"low_{name}": figure.low if figure else None,
                f"high_{name}": figure.high if figure else None,
                f"n_{name}": figure.n if figure else None,
                f"state_{name}": figure.state if figure else "",
                f"named_{name}": figure.named if figure else "",
            }
        row |= {"difference": pair.difference, "share_of_without": pair.share}
        rows.append(row)
    return rows
