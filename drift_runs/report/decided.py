"""Decisions about arms in words and as rows: the same on a page and in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from drift_runs.tracking.decisions import DECISIONS, Decision, History


def when(time_ms: int) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def decisions_sentence(arms: Sequence[str], history: History) -> str:
    """How many of the arms are decided, and who had the last word."""
    current = {name: entry for name, entry in history.current().items() if name in arms}
    many = "1 arm" if len(arms) == 1 else f"{len(arms)} arms"
    if not current:
        return f"Nothing is decided yet about {many}."
    counts = Counter(entry.decision for entry in current.values())
    words = ", ".join(f"{counts[decision]} {decision}" for decision in DECISIONS if counts[decision])
    last = max(current.values(), key=lambda entry: entry.time_ms)
    return f"Decided about {len(current)} of {many}: {words}. The last word is {last.name}'s, of {when(last.time_ms)}."


def decision_rows(entries: Sequence[Decision]) -> list[dict[str, object]]:
    """Entries as flat rows for a CSV, oldest first within an arm."""
    return [
        {
            "arm": entry.arm,
            "number": entry.number,
            "decision": entry.decision,
            "reason": entry.reason,
            "name": entry.name,
            "time": when(entry.time_ms),
            "view": entry.view,
            "run_id": entry.run_id,
        }
        for entry in entries
    ]
