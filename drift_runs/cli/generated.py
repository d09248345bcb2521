"""The table of what the arms wrote freely, under the table of arms on stdout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from drift_runs.campaign import GenerationReport
from drift_runs.cli.table import Address, index
from drift_runs.protocol.model import Protocol

_COLUMNS = (
    ("arm", 16),
    ("roots of flips", 14),
    ("malformed", 9),
    ("call lost", 9),
    ("wrong call", 10),
    ("changes (literal)", 17),
    ("recovers", 8),
    ("unresolved", 10),
    ("rollouts equal", 14),
    ("prefix", 6),
    ("tasks passed", 12),
)
_CALL_LOST = ("no-call", "unasked-call")


def lines(
    reports: Sequence[GenerationReport], protocol: Protocol, bounds: Sequence[str], task_order: pa.Table
) -> list[str]:
    """Head, a row an arm or constrained decode, and what must be known of it; none where nothing was generated."""
    if not reports:
        return []
    head = _line([name for name, _ in _COLUMNS])
    rows = [line for report in reports for line in _rows(report, protocol)]
    notes = [
        "Roots: flips that were followed on both sides, nobody pulled back. A floor's are places that candidates were "
        "followed from: the engine against itself."
    ]
    notes += _asked(reports)
    if bounds:
        notes.append(f"Bounded to {', '.join(bounds)}: drift run on the same protocol does all of it.")
    notes += _order(task_order)
    return ["Written freely:", head, "-" * len(head), *rows, *notes]


def _asked(reports: Sequence[GenerationReport]) -> list[str]:
    """What the roots of arms without rows are, and where their servers could not be asked."""
    visited = {
        report.execution.name: Counter(report.explored.visited["why"].to_pylist())
        for report in reports
        if report.explored is not None and report.explored.visited is not None
    }
    said = [
        f"{name} wrote another token than the reference at {found['left']} of {sum(found.values())} places"
        + (f" and could not be asked at {found['refused']}" if found["refused"] else "")
        for name, found in visited.items()
    ]
    notes = []
    if said:
        notes.append(
            "No rows: such an arm is asked where others left the reference, so its roots are no sample of its own "
            f"flips. {'; '.join(said)}."
        )
    lacking = any(found["refused"] for found in visited.values())
    for report in reports:
        figures = index(report.figures)
        for spec, words in (("rollout.refused", "rolled out from"), ("task.refused", "asked")):
            if (refused := figures.get(Address(spec, "count"))) is not None:
                lacking = True
                count = f"{refused['value']:.0f} of {refused['n']}"
                notes.append(f"{report.execution.name} was not {words} {count} {refused['reason']}")
    if lacking:
        notes.append("What a server could not be asked is not asked again, unless drift run is given --ask-again.")
    return notes


def _order(table: pa.Table) -> list[str]:
    """What the flips within tasks say of failed tasks, in the words of the figure itself."""
    wanted = {"over": "pairs", "among": "reference passed", "outliers": "with", "figure": "flips"}
    return [row["says"] for row in table.to_pylist() if wanted.items() <= row.items()]


def _rows(report: GenerationReport, protocol: Protocol) -> list[str]:
    name = report.execution.name
    if report.error is not None:
        return [f"{name:<16}  failed: {report.error.line()}"]
    figures = index(report.figures)
    own = [row for row in report.outcomes.to_pylist() if row["pair"] == "branch"]
    shown = [_line([name, *_outcomes(report, own, name), *_rollouts(figures), _passed(report.tasks)])]
    for constrained in protocol.constrained:
        if constrained.arm == name:
            shown.append(_line([constrained.name, *_outcomes(report, own, constrained.name), "-", "-", "-"]))
    return shown


def _line(cells: Sequence[str]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True)).rstrip()


def _outcomes(report: GenerationReport, rows: Sequence[dict[str, Any]], arm: str) -> list[str]:
    if report.explored is None:
        return ["-"] * 7
    here = [row for row in rows if row["arm"] == arm]
    count = Counter(row["outcome"] for row in here)
    literal = sum(row["literal"] for row in here)
    malformed = f"{count['malformed']}"
    if both := count["both-malformed"] + count["reference-malformed"]:
        malformed += f" +{both}"
    counts = [
        malformed,
        str(sum(count[name] for name in _CALL_LOST)),
        str(count["wrong-call"]),
        f"{count['changes']} ({literal})",
        str(count["recovers"]),
        str(count["unresolved"]),
    ]
    if report.explored.visited is not None:
        explored = f"{len(here)} at {report.explored.visited.num_rows} asked"
        return [explored, *counts]
    flips = report.explored.existing.flips
    explored = f"{len(here)} of {flips}"
    if report.execution.floor is not None:
        explored = f"{len(here)}, {flips} flip{'' if flips == 1 else 's'}"
    return [explored, *counts]


def _rollouts(figures: Any) -> list[str]:
    exact, prefix = figures.get(Address("rollout.exact", "count")), figures.get(Address("rollout.prefix", "share"))
    if exact is None or prefix is None:
        return ["-", "-"]
    return [f"{exact['value']:.0f} of {exact['n']}", f"{prefix['value']:.0%}"]


def _passed(tasks: pa.Table) -> str:
    if not tasks.num_rows:
        return "-"
    passed = tasks["passed"].to_pylist()
    unknown = passed.count(None)
    return f"{passed.count(True)} of {len(passed)}" + (f", {unknown} ?" if unknown else "")
