"""Does sampling amplify drift or damp it: one reading, greedily and at each temperature, of the same prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dashboard import data
from dashboard.components.arm_table import figure_fields
from dashboard.components.cells import table
from dashboard.components.generated import Generated
from dashboard.components.markup import Html, tag
from dashboard.figures import is_withheld, write_interval, write_number, write_value
from drift_runs.generate.rollouts import Share, compare_rollouts
from drift_runs.measure.figures import Figure
from drift_runs.measure.resampler import Resampler

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord

GREEDY = "greedy"
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("arm", "role", "temperature")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        ("prompts", pa.int64()),
        ("reason", pa.string()),
    ]
)


class Move(NamedTuple):
    """How a reading of an arm at a temperature stands to the greedy one."""

    arm: str
    temperature: str
    kind: str
    """``amplifies``, ``damps`` or ``equal``."""
    apart: bool | None
    """The two intervals do not overlap; None where one of them has none."""


class SampledDrift:
    """One reading (``exact``, ``prefix`` or ``agree``) of every arm that was decoded at a temperature."""

    def __init__(self, found: Generated, arms: list[ArmRecord], reading: str) -> None:
        self.found = found
        self.reading = reading
        self.outliers = found.page.sets[0]
        self.temperatures = found.temperatures()
        first = f"sampled.{reading}@{self.temperatures[0]}" if self.temperatures else ""
        self.arms = found.arms(arms, first) if first else []
        self.figures = {(arm.arm, name): self._figure(arm, name) for arm in self.arms for name in self.names}

    def __bool__(self) -> bool:
        return bool(self.arms)

    @property
    def names(self) -> list[str]:
        """The columns: greedy, then each temperature."""
        return [GREEDY, *self.temperatures]

    def _figure(self, arm: ArmRecord, name: str) -> Figure | None:
        if name != GREEDY:
            return self.found.figure(arm.arm, f"sampled.{self.reading}@{name}", "share", self.outliers)
        return self._greedy(arm)

    def _greedy(self, arm: ArmRecord) -> Figure | None:
        """The greedy reading of the prompts and the length that were sampled, so that both are of the same text."""
        stored = self.found.figure(arm.arm, f"rollout.{self.reading}", "share", self.outliers)
        protocol = self.found.page.protocol
        if stored is None or protocol.rollouts is None or protocol.sampled is None:
            return stored
        sampled = data.sampled(self.found.uri, arm.run_id, True, self.temperatures[0])
        prompts = sorted(set(sampled["prompt"].to_pylist()))
        mine = self.found.rollouts(arm.arm)
        same = sorted(set(mine["prompt"].to_pylist())) == prompts
        if not prompts or (same and protocol.sampled.tokens >= protocol.rollouts.tokens):
            return stored
        sides = [
            _cut(side, prompts, protocol.sampled.tokens)
            for side in (self.found.rollouts(self.found.against(arm)), mine)
        ]
        if any(side.num_rows < len(prompts) for side in sides):
            return stored
        resampler = Resampler.of(protocol)
        share: Share = getattr(compare_rollouts(*sides, resampler=resampler), self.reading)
        return Figure(
            arm=arm.arm,
            scope_kind="all",
            scope="all",
            outliers=self.outliers,
            spec=f"rollout.{self.reading}",
            statistic="share",
            value=share.value,
            n=len(prompts),
            low=share.low,
            high=share.high,
            interval=resampler.cluster_label(len(prompts), "prompt") if share.low is not None else "",
            clusters=len(prompts),
            reason=f"the {len(prompts)} prompts and {protocol.sampled.tokens} tokens that were sampled",
        )

    def moves(self) -> list[Move]:
        """Every candidate at every temperature against its own greedy reading."""
        found = []
        for arm in self.arms:
            greedy = self.figures[arm.arm, GREEDY]
            if arm.role not in ("candidate", "follow-up") or greedy is None or greedy.value is None:
                continue
            for name in self.temperatures:
                figure = self.figures[arm.arm, name]
                if figure is not None and figure.value is not None:
                    found.append(Move(arm.arm, name, _kind(greedy.value, figure.value), _apart(greedy, figure)))
        return found

    def sentence(self) -> list[object]:
        """Amplified or damped, and whether the intervals show it, in words."""
        moves = self.moves()
        if not moves:
            return ["No arm has both a greedy and a sampled reading: nothing can be said of amplifying or damping."]
        parts: list[object] = []
        for name in self.temperatures:
            here = [move for move in moves if move.temperature == name]
            words = [
                f"{count} {'is' if count == 1 else 'are'} {said}"
                for kind, said in (
                    ("amplifies", "further from the reference than greedily (amplified)"),
                    ("damps", "nearer (damped)"),
                    ("equal", "as near"),
                )
                if (count := sum(move.kind == kind for move in here))
            ]
            parts.append(f"At T = {name}, of {_count(len(here), 'arm')} {', '.join(words)}. ")
        apart = [move for move in moves if move.apart]
        alike = sum(move.apart is False for move in moves)
        unknown = sum(move.apart is None for move in moves)
        if apart:
            named = ", ".join(f"{move.arm} at T = {move.temperature} ({move.kind})" for move in apart)
            parts += ["Shown, as the two intervals do not overlap: ", tag("b", named), ". "]
        if alike:
            parts.append(f"In {alike} of {len(moves)} the intervals overlap: these do not show it. ")
        if unknown:
            parts.append(f"In {unknown} one side has no interval, because its resamples are all alike. ")
        return [*parts, self._null()]

    def _null(self) -> str:
        floors = [arm for arm in self.arms if arm.role == "floor" and not arm.reference]
        if not floors:
            return "No floor was sampled: there is no null at these temperatures."
        lowest = [
            (figure.value, arm.arm, name)
            for arm in floors
            for name in self.temperatures
            if (figure := self.figures[arm.arm, name]) is not None and figure.value is not None
        ]
        if not lowest:
            return ""
        value, arm, name = min(lowest)
        if value == 1.0:
            return "The null does not part at any temperature."
        return f"The null parts too: {arm} has {write_number(value, 'share')} at T = {name}."

    def html(self, caption: str) -> Html:
        head = [tag("th", "arm", scope="col")]
        for name in self.names:
            spec = f"rollout.{self.reading}" if name == GREEDY else f"sampled.{self.reading}@{name}"
            words = GREEDY if name == GREEDY else f"T = {name}"
            head.append(tag("th", words, tag("span", spec, cls="dr-line dr-spec"), scope="col"))
        body = []
        for arm in self.arms:
            role = tag("span", arm.role, cls="dr-line dr-title") if arm.role != "candidate" else None
            cells = [tag("td", self._cell(arm.arm, name), data_figure=name) for name in self.names]
            row = tag("tr", tag("th", arm.arm, role, scope="row"), cells, data_arm=arm.arm, data_outliers=self.outliers)
            body.append(row)
        return table(caption, head, body, label="Sampled drift")

    def _cell(self, arm: str, name: str) -> list[Html | None]:
        figure = self.figures[arm, name]
        if figure is None:
            return [tag("span", "not measured", cls="dr-line dr-small")]
        if is_withheld(figure):
            return [tag("span", "withheld", cls="dr-grey"), tag("span", figure.reason, cls="dr-line dr-small")]
        prompts = figure.clusters or figure.n
        counted = f"n {_count(prompts, 'prompt')}"
        counted += f", {figure.n:,} pairs" if figure.n != prompts else ""
        return [
            tag("span", write_value(figure, "share"), cls="dr-value dr-num"),
            tag("span", write_interval(figure, "share") or "no interval", cls="dr-line dr-small dr-num"),
            tag("span", counted, cls="dr-line dr-small", title=figure.reason or None),
        ]

    def chart_rows(self) -> pa.Table:
        rows = []
        for arm in self.arms:
            for name in self.names:
                figure = self.figures[arm.arm, name]
                if figure is None:
                    continue
                rows.append(
                    {
                        "arm": arm.arm,
                        "role": arm.role,
                        "temperature": name,
                        "value": None if is_withheld(figure) else figure.value,
                        "low": figure.low,
                        "high": figure.high,
                        "n": figure.n,
                        "prompts": figure.clusters or figure.n,
                        "reason": figure.reason,
                    }
                )
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def csv_rows(self) -> list[dict[str, object]]:
        return [
            {"arm": arm, "temperature": name, **figure_fields(figure)}
            for (arm, name), figure in self.figures.items()
            if figure is not None
        ]


def _cut(rollouts: pa.Table, prompts: Sequence[str], tokens: int) -> pa.Table:
    """The rollouts of some prompts, as long as ``tokens`` at most."""
    kept = rollouts.filter(pc.is_in(rollouts["prompt"], value_set=pa.array(prompts, pa.string()))).to_pylist()
    for row in kept:
        for name in ("tokens", "token_ids", "logprobs"):
            row[name] = row[name][:tokens] if row[name] is not None else None
    return pa.Table.from_pylist(kept, schema=rollouts.schema)


def _kind(greedy: float, sampled: float) -> str:
    if abs(sampled - greedy) < 1e-12:
        return "equal"
    return "amplifies" if sampled < greedy else "damps"


def _apart(one: Figure, other: Figure) -> bool | None:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.high < other.low or other.high < one.low


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
