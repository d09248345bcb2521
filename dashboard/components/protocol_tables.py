"""What a protocol froze, as tables: each returns its head, its rows as texts, and nothing of Streamlit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from drift_runs.protocol.model import RANGE_KINDS, Part, Protocol, Window


class Listing(NamedTuple):
    """A table of texts."""

    label: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def flat(self) -> list[dict[str, object]]:
        """Rows for a CSV."""
        return [dict(zip(self.head, row, strict=True)) for row in self.rows]


def panels(protocol: Protocol) -> Listing:
    rows = []
    for panel in protocol.panels:
        windows = [window for window in protocol.windows if window.panel == panel.name]
        documents = {window.document for window in windows}
        rows.append(
            (
                panel.name,
                panel.title,
                "prompt: people wrote it" if panel.role == "prompt" else "generated: the reference wrote it",
                f"{len(windows):,}",
                f"{len(documents):,}",
                f"{sum(map(scored_positions, windows)):,}",
            )
        )
    return Listing("Panels", ("panel", "title", "role", "windows", "documents", "scored positions"), tuple(rows))


def scored_positions(window: Window) -> int:
    return sum(end - start for start, end in window.scored)


def windows(protocol: Protocol, lengths: Mapping[str, int]) -> Listing:
    """``lengths``: window to the tokens of its stream, of those whose stream is stored."""
    declared = protocol.outlier_windows
    rows = [
        (
            window.name,
            window.title,
            window.panel,
            window.document,
            window.group or "-",
            f"{scored_positions(window):,}",
            f"{lengths[window.name]:,}" if window.name in lengths else "not stored",
            _coverage(scored_positions(window), lengths.get(window.name)),
            _spans(window.scored),
            "declared outlier" if window.name in declared else "",
        )
        for window in protocol.windows
    ]
    head = (
        *("window", "title", "panel", "document", "group"),
        *("scored positions", "length, tokens", "coverage", "scored spans, in tokens", "mark"),
    )
    return Listing("Windows", head, tuple(rows))


def _coverage(scored: int, length: int | None) -> str:
    """How much of a stream is scored."""
    return f"{100 * scored / length:.0f} %" if length else "not known"


def _spans(spans: Sequence[tuple[int, int]], most: int = 3) -> str:
    shown = ", ".join(f"{start:,} to {end:,}" for start, end in spans[:most])
    return shown + (f" and {len(spans) - most:,} more" if len(spans) > most else "")


def ranges(protocol: Protocol) -> Listing:
    rows = []
    for kind in RANGE_KINDS:
        found = [item for item in protocol.ranges if item.kind == kind]
        if found:
            length = sum(item.end - item.start for item in found)
            inside = len({item.window for item in found})
            rows.append((kind, f"{len(found):,}", f"{inside:,}", f"{length:,}"))
    return Listing("Ranges by kind", ("kind", "ranges", "windows", "tokens that they span"), tuple(rows))


def arms(protocol: Protocol) -> Listing:
    rows = [
        (
            arm.name,
            arm.role,
            arm.title if arm.title != arm.name else "",
            arm.derivative,
            arm.weights,
            arm.kv,
            arm.engine,
            _said(arm.settings),
            f"{arm.launches}",
            arm.against or "-",
        )
        for arm in protocol.arms
    ]
    head = ("arm", "role", "title", "derivative", "weights", "KV", "engine", "settings", "launches", "against")
    return Listing("Arms", head, tuple(rows))


def floors(protocol: Protocol) -> Listing:
    rows = [
        (
            floor.name,
            floor.arm,
            floor.kind,
            floor.rows,
            _said(floor.settings) if floor.settings else "-",
            ", ".join(floor.windows) or "all",
        )
        for floor in protocol.floors
    ]
    return Listing("Floors", ("floor", "of", "kind", "rows must be", "changed settings", "on windows"), tuple(rows))


def outliers(protocol: Protocol) -> Listing:
    rows = [(outlier.window, outlier.reason) for outlier in protocol.outliers]
    return Listing("Declared outlier windows", ("window", "reason"), tuple(rows))


def rules(protocol: Protocol) -> Listing:
    """Seeds and every setting that changes a number."""
    parts: dict[str, Part] = {
        "seeds": protocol.seeds,
        "capture": protocol.capture,
        "intervals": protocol.intervals,
        "history": protocol.history,
        "bands": protocol.bands,
        "verdict": protocol.verdict,
        "marks": protocol.marks,
        "outlier rule": protocol.outlier_rule,
    }
    rows = [(table, name.replace("_", " "), value) for table, part in parts.items() for name, value in _items(part)]
    return Listing("Seeds and rules", ("table", "key", "value"), tuple(rows))


def generation(protocol: Protocol) -> Listing:
    """What is written freely; no row for a protocol that only scores."""
    parts: dict[str, Part | None] = {
        "branches": protocol.branches,
        "rollouts": protocol.rollouts,
        "sampled": protocol.sampled,
    }
    rows = [
        (table, name.replace("_", " "), value)
        for table, part in parts.items()
        if part is not None
        for name, value in _items(part)
    ]
    if protocol.tasks:
        checks = Counter(task.check for task in protocol.tasks)
        rows.append(("tasks", "number", f"{len(protocol.tasks):,}"))
        rows.append(("tasks", "checks", ", ".join(f"{count} {check}" for check, count in sorted(checks.items()))))
    rows += [("environments", found.name, f"windows {', '.join(found.windows)}") for found in protocol.environments]
    rows += [("constrained", found.name, f"{found.arm} held to {found.grammar}") for found in protocol.constrained]
    if protocol.chat is not None:
        rows += [("chat", name.replace("_", " "), value) for name, value in _items(protocol.chat)]
    return Listing("Generation", ("table", "key", "value"), tuple(rows))


def _items(part: Part) -> list[tuple[str, str]]:
    return [(name, _value(value)) for name, value in part.model_dump(by_alias=True).items()]


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return "not set" if value is None or value == "" else str(value)


def _said(part: Part) -> str:
    """The settings that the protocol states; a default is not one."""
    stated = part.model_dump(exclude_unset=True, exclude_none=True)
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in stated.items()) or "-"
