"""Rollouts by arm in all four readings, and what a rate of agreement hides: early stops and loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import figure_cell, header_cell, table
from dashboard.components.generated import Generated
from dashboard.components.markup import Html, tag
from dashboard.figures import AGREE, EXACT, PREFIX, ROLLOUTS, is_withheld, write_interval, write_value
from dashboard.frame import chip

if TYPE_CHECKING:
    from drift_runs.measure.figures import Figure
    from drift_runs.tracking.records import ArmRecord

READINGS = {
    EXACT.spec: "equal in full",
    PREFIX.spec: "equal prefix",
    AGREE.spec: "agreeing tokens",
}
_READING_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("arm", "role", "reading")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        ("reason", pa.string()),
    ]
)
_STEP_SCHEMA = pa.schema([("arm", pa.string()), ("step", pa.int64()), ("prompts", pa.int64()), ("n", pa.int64())])


class Parting(NamedTuple):
    """The fourth reading of an arm: where its rollouts part from the reference's."""

    steps: tuple[tuple[int, int], ...]
    """(step from 0, prompts), in order."""
    n: int
    """Prompts, those that never part included."""

    @property
    def never(self) -> int:
        return self.n - sum(count for _, count in self.steps)

    @property
    def half(self) -> int | None:
        """The first step by which half of all prompts have parted; None where fewer than half part at all."""
        parted = 0
        for step, count in self.steps:
            parted += count
            if 2 * parted >= self.n:
                return step
        return None


class RolloutTable:
    """Figures of the arms' rollouts. No window is declared an outlier among prompts: both sets are the same."""

    def __init__(self, found: Generated, arms: list[ArmRecord]) -> None:
        self.found = found
        self.outliers = found.page.sets[0]
        self.arms = found.arms(arms, EXACT.spec)

    def __bool__(self) -> bool:
        return bool(self.arms)

    def figure(self, arm: str, spec: str, statistic: str = "share") -> Figure | None:
        return self.found.figure(arm, spec, statistic, self.outliers)

    def parting(self, arm: str) -> Parting:
        """Where an arm's rollouts part."""
        rows = self.found.book.rows(arm=arm, spec="rollout.first", scope_kind="step", outliers=self.outliers)
        exact = self.figure(arm, EXACT.spec)
        steps = sorted((int(row.scope), int(row.value or 0)) for row in rows)
        return Parting(tuple(steps), exact.n if exact is not None else 0)

    def html(self, caption: str) -> Html:
        head = [tag("th", "arm", scope="col"), *(header_cell(column) for column in ROLLOUTS)]
        for words, spec in (
            ("first difference", "rollout.first"),
            ("early stops", "rollout.early_stop"),
            ("loops", "rollout.loop"),
        ):
            head.append(tag("th", words, tag("span", spec, cls="dr-line dr-spec"), scope="col"))
        head.append(tag("th", "n, prompts", scope="col", cls="dr-right"))
        return table(caption, head, [self._row(arm) for arm in self.arms], label="Rollouts")

    def _row(self, arm: ArmRecord) -> Html:
        figures = {column.key: self.figure(arm.arm, column.spec) for column in ROLLOUTS}
        n = max((figure.n for figure in figures.values() if figure is not None), default=0)
        cells = []
        for column in ROLLOUTS:
            lines = figure_cell(figures[column.key], column)
            count = self.figure(arm.arm, EXACT.spec, "count") if column is EXACT else None
            if count is not None and count.value is not None:
                lines.append(_small(f"{count.value:,.0f} of {count.n:,}"))
            if (mean := self._tokens(arm.arm)) and column is PREFIX:
                lines.append(_small(mean))
            cells.append(tag("td", lines, data_figure=column.key))
        marks = [chip(arm.role, "plain")] if arm.role != "candidate" else []
        marks += [chip(f"against {arm.reference}", "plain")] if arm.reference else []
        return tag(
            "tr",
            tag("th", arm.arm, " ", marks, scope="row"),
            cells,
            tag("td", self._parting_lines(arm.arm), data_figure="first"),
            tag("td", self._sides(arm.arm, "rollout.early_stop"), data_figure="early_stop"),
            tag("td", self._sides(arm.arm, "rollout.loop"), data_figure="loop"),
            tag("td", f"{n:,}", cls="dr-num dr-right"),
            data_arm=arm.arm,
            data_outliers=self.outliers,
        )

    def _tokens(self, arm: str) -> str:
        tokens = self.figure(arm, PREFIX.spec, "tokens")
        if tokens is None or tokens.value is None:
            return ""
        return f"{tokens.value:,.0f} of {tokens.n:,} tokens"

    def _parting_lines(self, arm: str) -> list[Html | None]:
        found = self.parting(arm)
        if not found.n:
            return [_small("not measured")]
        if not found.steps:
            return [tag("span", "none parts", cls="dr-line dr-value")]
        half = f"half by step {found.half}" if found.half is not None else "fewer than half part"
        return [
            tag("span", half, cls="dr-line dr-value"),
            _small(f"the earliest at step {found.steps[0][0]}"),
            _small(f"{found.never:,} of {found.n:,} never"),
        ]

    def _sides(self, arm: str, spec: str) -> list[Html | None]:
        sides = {side: self.figure(arm, spec, f"{side}.count") for side in ("candidate", "reference", "differ")}
        mine, theirs, differ = sides["candidate"], sides["reference"], sides["differ"]
        if mine is None or theirs is None or mine.value is None or theirs.value is None:
            return [_small("not known: the source gives no end tokens or ids")]
        lines = [
            tag("span", f"{mine.value:,.0f} of {mine.n:,}", cls="dr-line dr-value dr-num"),
            _small(f"reference {theirs.value:,.0f} of {theirs.n:,}"),
        ]
        if differ is not None and differ.value is not None:
            lines.append(_small(f"told apart in {differ.value:,.0f}"))
        return lines

    def chart_rows(self) -> pa.Table:
        """Rows for the chart of readings."""
        rows = []
        for arm in self.arms:
            for spec, words in READINGS.items():
                figure = self.figure(arm.arm, spec)
                if figure is None:
                    continue
                rows.append(
                    {
                        "arm": arm.arm,
                        # A floor of another arm is no null of the campaign's reference.
                        "role": "launch" if arm.role == "floor" and arm.reference else arm.role,
                        "reading": words,
                        "value": None if is_withheld(figure) else figure.value,
                        "low": figure.low,
                        "high": figure.high,
                        "n": figure.n,
                        "reason": "" if not is_withheld(figure) else figure.reason,
                    }
                )
        return pa.Table.from_pylist(rows, schema=_READING_SCHEMA)

    def step_rows(self) -> pa.Table:
        """Rows for the histogram of first differences."""
        rows = []
        for arm in self.arms:
            found = self.parting(arm.arm)
            rows += [{"arm": arm.arm, "step": step, "prompts": count, "n": found.n} for step, count in found.steps]
            rows.append({"arm": arm.arm, "step": None, "prompts": found.never, "n": found.n})
        return pa.Table.from_pylist(rows, schema=_STEP_SCHEMA)

    def steps(self) -> int:
        """Tokens of a rollout: what the protocol asks for, or the longest that was compared."""
        rollouts = self.found.page.protocol.rollouts
        if rollouts is not None:
            return rollouts.tokens
        lengths = [1]
        for arm in self.arms:
            tokens, exact = self.figure(arm.arm, PREFIX.spec, "tokens"), self.figure(arm.arm, EXACT.spec)
            lengths += [step + 1 for step, _ in self.parting(arm.arm).steps]
            if tokens is not None and exact is not None and exact.n:
                lengths.append(-(-tokens.n // exact.n))
        return max(lengths)

    def sentence(self) -> list[object]:
        """Which arm keeps longest and shortest to the reference's text, and what the null does, in words."""
        known = {
            arm.arm: figure
            for arm in self.arms
            if arm.role in ("candidate", "follow-up")
            and (figure := self.figure(arm.arm, PREFIX.spec)) is not None
            and figure.value is not None
        }
        parts: list[object] = []
        if known:
            values = [figure.value for figure in known.values()]
            for words, value in (("longest", max(values)), ("shortest", min(values))):
                names = [name for name, figure in known.items() if figure.value == value]
                if words == "shortest" and len(set(values)) == 1:
                    break
                figure = known[names[0]]
                verb = "keeps" if len(names) == 1 else "keep"
                parts += [tag("b", ", ".join(names)), f" {verb} {words} to the reference's text: {_said(figure)}. "]
            if len(known) > 1 and len(set(values)) == 1:
                parts.append("All arms are alike. ")
        parts.append(self._null())
        return parts

    def _null(self) -> str:
        floors = [
            (arm.arm, figure)
            for arm in self.arms
            if arm.role == "floor"
            and not arm.reference
            and (figure := self.figure(arm.arm, PREFIX.spec)) is not None
            and figure.value is not None
        ]
        if not floors:
            return "No floor was rolled out: there is no null to set this against."
        value = min(figure.value for _, figure in floors if figure.value is not None)
        if value == 1.0:
            return f"The null never parts: every floor ({', '.join(name for name, _ in floors)}) writes the same."
        name, figure = next((name, figure) for name, figure in floors if figure.value == value)
        return f"The null parts too: {name} has {_said(figure)}."

    def csv_rows(self) -> list[dict[str, object]]:
        """Every figure of the rollouts, first differences by step among them."""
        names = {arm.arm for arm in self.arms}
        return [
            {"arm": figure.arm, **figure_fields(figure)}
            for figure in self.found.book.rows(outliers=self.outliers)
            if figure.arm in names and figure.spec.startswith("rollout.")
        ]


def _said(figure: Figure) -> str:
    """An equal prefix in words."""
    value = f"{write_value(figure, 'share')} {write_interval(figure, 'share')}".strip()
    prompts = "prompt" if figure.n == 1 else "prompts"
    return f"{value} of a rollout before the first difference, n {figure.n:,} {prompts}"


def _small(words: str) -> Html | None:
    return tag("span", words, cls="dr-line dr-small") if words else None
