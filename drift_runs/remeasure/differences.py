"""What was logged against what the rows give now, row by row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from drift_runs.errors import one_line

TOLERANCE = 1e-9
"""Relative; beyond it a number counts as different."""

_NUMBERS = (
    "value",
    "n",
    "excluded",
    "beyond",
    "low",
    "high",
    "standard_error",
    "bca_low",
    "bca_high",
    "t_low",
    "t_high",
)
_COMPARED = (*_NUMBERS, "state", "named", "named_share", "floor", "floor_value", "borrowed", "verdict", "clusters")
_KEYS: Mapping[str, tuple[str, ...]] = {
    "figures": ("scope_kind", "scope", "outliers", "spec", "statistic"),
    "pairs": ("left", "right", "scope_kind", "scope", "outliers", "spec", "statistic"),
    "agreement": ("left", "right", "outliers"),
    "proposals": ("window", "rule", "floor"),
    "determinism": ("against", "window"),
    "answers": ("answer",),
    "distribution": ("scope_kind", "scope", "outliers", "spec", "low_nats"),
    "generation": ("arm", "scope_kind", "scope", "outliers", "spec", "statistic"),
    "roots": ("window", "position"),
    "futures": ("window", "position", "first"),
    "outcomes": ("arm", "pair", "window", "position"),
    "rollouts": ("prompt", "run"),
    "tasks": ("task",),
    "task_drift": ("arm", "task"),
    "task_order": ("over", "among", "outliers", "figure"),
}
"""What names a row of each table. ``generation``: figures of what was written freely."""
_OF_FIGURES = ("figures", "generation")
_WHOLE = ("distribution", "roots", "futures", "outcomes", "rollouts", "tasks", "task_drift", "task_order")
"""Tables that are compared in every column; a row that was never logged is a difference."""
_SHOWN_LETTERS = 80

_LEFT_OUT = ("window_hash", "text", "token_text", "candidate_text", "wrong_from", "wrong_to")
"""What needs more than the comparison: the rows themselves, or the dictionary and the streams."""


class Compared(NamedTuple):
    """Two tables of one kind: what was logged, and what the rows give now."""

    equal: int
    differing: tuple[str, ...]
    """One line for each row that is not the same, or that only the logged table has."""
    only_computed: int
    """Rows that were never logged: an older version did not know their figure."""


def differences(kind: str, label: str, logged: pa.Table, computed: pa.Table) -> Compared:
    """Row by row: texts in full, numbers to the tolerance.

    A column that is null throughout the logged table is left out, unless the table is one of generation's: the version
    that wrote it had no such column. ``kind`` is one of those that have keys above.
    """
    keys = _KEYS[kind]
    if kind in _WHOLE:
        compared = tuple(name for name in computed.column_names if name not in keys)
    else:
        left_out = (*keys, *_LEFT_OUT)
        of_rows = tuple(name for name in computed.column_names if name not in left_out)
        compared = _COMPARED if kind in _OF_FIGURES else of_rows
        compared = tuple(name for name in compared if not logged.num_rows or logged[name].null_count < logged.num_rows)
    before, after = _keyed(logged, keys), _keyed(computed, keys)
    lines = [f"{label} {_named(key)}: only logged" for key in sorted(before.keys() - after.keys())]
    if kind in _WHOLE:
        lines += [f"{label} {_named(key)}: not logged" for key in sorted(after.keys() - before.keys())]
    equal = 0
    for key in sorted(before.keys() & after.keys()):
        old, new = before[key], after[key]
        changed = [name for name in compared if not _same(old[name], new[name])]
        if changed:
            was = ", ".join(f"{name} {_shown(old[name], new[name])}" for name in changed)
            now = ", ".join(f"{name} {_shown(new[name], old[name])}" for name in changed)
            lines.append(f"{label} {_named(key)}: logged {was}; now {now}")
        else:
            equal += 1
    return Compared(equal, tuple(lines), 0 if kind in _WHOLE else len(after.keys() - before.keys()))


def _keyed(table: pa.Table, keys: tuple[str, ...]) -> dict[tuple[str, ...], dict]:
    """Rows by what names them; rows of one name are counted, so that none hides another."""
    seen: Counter[tuple[str, ...]] = Counter()
    rows = {}
    for row in table.to_pylist():
        key = tuple(str(row[name]) for name in keys)
        seen[key] += 1
        rows[(*key, f"#{seen[key]}") if seen[key] > 1 else key] = row
    return rows


def _named(key: tuple[str, ...]) -> str:
    return one_line("/".join(key))


def _shown(value: object, other: object) -> str:
    """A value for a person, who is to see where it differs from the other: a long text from shortly before there."""
    text, beside = str(value), str(other)
    start = 0
    if len(text) > _SHOWN_LETTERS:
        alike = next((at for at, pair in enumerate(zip(text, beside, strict=False)) if pair[0] != pair[1]), 0)
        start = max(0, alike - _SHOWN_LETTERS // 4)
    end = start + _SHOWN_LETTERS
    return one_line(("…" if start else "") + text[start:end] + ("…" if end < len(text) else ""))


def different_metrics(label: str, logged: Mapping[str, float], computed: Mapping[str, float]) -> Compared:
    """The same of metrics by name; series by history are not compared here."""
    both = sorted(computed.keys() & logged.keys())
    lines = tuple(
        f"{label} metric {name}: logged {logged[name]}; now {computed[name]}"
        for name in both
        if not _same(logged[name], computed[name])
    )
    return Compared(len(both) - len(lines), lines, len(computed.keys() - logged.keys()))


def _same(old: object, new: object) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=1e-15)
    return old == new
