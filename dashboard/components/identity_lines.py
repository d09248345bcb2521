"""Whether two executions agree to the byte, as a line each: what was found, what was expected, whether it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from dashboard import data
from dashboard.components.determinism import without_windows
from drift_runs.measure.determinism import DeterminismSummary, summarise_determinism

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

KINDS = ("pass", "launch", "geometry")
KIND_TITLES = {"pass": "Passes", "launch": "Launches", "geometry": "Geometries"}
KIND_SAYS = {
    "pass": "Again in the same process of the engine.",
    "launch": "Again in a fresh process, nothing else changed.",
    "geometry": "The same weights, executed otherwise: another micro-batch, other threads, another path.",
}
EXPECTED_WORDS = {"identical": "all rows identical", "differ": "some rows differ", "report": "nothing: report only"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One floor under one choice of outliers."""

    arm: ArmRecord
    outliers: str
    table: pa.Table
    """Schema ``DETERMINISM``, the windows of this choice."""
    found: DeterminismSummary

    @property
    def holds(self) -> str:
        """``yes``, ``no``; empty where nothing was expected or nothing is known."""
        if not self.found.rows or self.arm.rows_expected not in ("identical", "differ"):
            return ""
        return "yes" if self.found.identical == (self.arm.rows_expected == "identical") else "no"

    @property
    def says(self) -> str:
        """Whether what the protocol expects holds, in words."""
        if not self.found.rows:
            return "not known: no positions were compared"
        differ = self.found.rows - self.found.rows_identical
        counted = f"{differ:,} of {self.found.rows:,} rows differ" if differ else "every row is identical"
        match self.arm.rows_expected, self.holds:
            case "identical", "no":
                return f"refuted: {counted}"
            case "differ", "no":
                return "does not hold: no row differs, so the setting changed nothing"
            case _, "yes":
                return f"holds: {counted}"
        return counted

    @property
    def largest(self) -> tuple[str, str]:
        """The largest difference as text, and of what; adding 0 takes the sign from a negative zero."""
        if self.found.max_abs_dlogit is not None:
            return f"{self.found.max_abs_dlogit + 0.0:.3g}", "of a raw logit"
        if self.found.max_abs_dlogprob is not None:
            return f"{self.found.max_abs_dlogprob + 0.0:.3g}", "of a log-probability"
        return "not known", ""


def lines_of(page: Page, arms: list[ArmRecord]) -> list[Line]:
    """One line for each arm and choice of outliers, in that order."""
    declared = [window for window, _ in page.campaign.outliers]
    lines = []
    for arm in arms:
        stored = data.determinism(page.uri, arm.run_id, arm.complete)
        for outliers in page.sets:
            table = without_windows(stored, declared if outliers == "without" else [])
            lines.append(Line(arm=arm, outliers=outliers, table=table, found=summarise_determinism(table)))
    return lines


def settings_words(page: Page, name: str) -> str:
    """What a floor of the protocol executes otherwise; empty where nothing is said."""
    floor = next((floor for floor in page.protocol.floors if floor.name == name), None)
    if floor is None or floor.settings is None:
        return ""
    found = floor.settings.model_dump(exclude_defaults=True, exclude_none=True)
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in found.items())


def sentence(lines: list[Line]) -> str:
    """How many floors are as the protocol expects, and which are not."""
    asked = [line for line in lines if line.holds]
    if not lines:
        return "No floor was run, so nothing is known about whether this machine repeats itself."
    if not asked:
        return "The protocol expects nothing of its floors: what they show is reported below."
    broken = [line for line in asked if line.holds == "no"]
    words = f"{len(asked) - len(broken)} of {len(asked)} floors are as the protocol expects."
    if broken:
        words += f" Not so: {'; '.join(f'{line.arm.arm}, {line.says}' for line in broken)}."
    return words


def kind_sentence(lines: list[Line]) -> str:
    """Windows and rows of one kind of repeat, over its floors."""
    return "; ".join(
        f"{line.arm.arm}: {line.found.windows_identical:,} of {line.found.windows:,} windows and "
        f"{line.found.rows_identical:,} of {line.found.rows:,} rows identical"
        for line in lines
    )
