"""Drift where a task's answer stands, beside whether the arm passed the task: table ``TASK_DRIFT``.

Drift is measured on the text's own history, the answer is the arm's own: the two are put side by side here and nowhere
else. A task's *span* is the scored positions from its first token to the end of the answer that it names, or of the
turn where it names none; its *window* is all scored positions of its window.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from drift_runs.errors import NotComparable, ProtocolError
from drift_runs.measure.flips import strong_overturn_mask
from drift_runs.measure.headline import headline_of
from drift_runs.measure.positions import Positions, positions_of
from drift_runs.measure.quantiles import WITHHELD, quantiles
from drift_runs.measure.ranges import P95, SpanValues, range_index, span_statistic
from drift_runs.measure.specs import headline_spec
from drift_runs.protocol.generation import Task
from drift_runs.protocol.model import Protocol
from drift_runs.schema import TASK_DRIFT


class Span(NamedTuple):
    """Half-open positions of a window."""

    start: int
    end: int


def task_spans(
    protocol: Protocol, streams: Mapping[str, Sequence[int]], end_tokens: Collection[int]
) -> dict[str, Span]:
    """The span of each task's answer in its window's own text, by the task's name.

    It ends where the answer ends that the task names; without one behind the first token at or after ``at`` that ends a
    turn; without such a token at the end of the stream. ``streams``: window -> its token ids, of windows with tasks.
    """
    answers = {(answer.window, answer.name): answer for answer in protocol.answers}
    spans = {}
    for task in protocol.tasks:
        stream = streams[task.window]
        if task.answer:
            end = answers[task.window, task.answer].end
        else:
            end = next((at + 1 for at in range(task.at, len(stream)) if stream[at] in end_tokens), len(stream))
        if not task.at < end <= len(stream):
            raise ProtocolError(
                f"an answer from {task.at} to {end}",
                where=f"task {task.name}",
                expected=f"at least one token within the {len(stream):,} of window {task.window}",
            )
        spans[task.name] = Span(task.at, end)
    return spans


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """One arm's comparison, laid out for looking up spans."""

    positions: Positions
    headline: np.ndarray
    """float64[n] in nats, NaN where it is not known."""
    spec: str
    strong: np.ndarray
    ranges: np.ndarray
    """int32[n]: into ``protocol.ranges``; -1 outside every one."""


def task_drift_table(
    tasks: Mapping[str, pa.Table],
    comparisons: Mapping[str, pa.Table],
    protocol: Protocol,
    spans: Mapping[str, Span],
) -> pa.Table:
    """Table ``TASK_DRIFT``: one row an arm and task, in the order of ``tasks``, the reference left out.

    Parameters
    ----------
    tasks
        arm -> table ``TASKS``; the reference's among them says which tasks it passed.
    comparisons
        arm -> table ``COMPARISON`` against the protocol's reference. An arm without one, as a decode that is held to a
        grammar, has no drift of its own: its columns are null and the reason says so.
    spans
        of :func:`task_spans`.

    In the span: ``flips``, ``strong_overturns``, mean, largest value and p95 of the headline divergence. In the window:
    the largest p95 among its ranges, with its range. A p95 with fewer than ten values beyond it is withheld, as
    everywhere, so that short spans have none. ``positions`` counts the scored positions of the span that have a row,
    ``unknown`` those of them without a flip or a finite divergence: one of them leaves that figure null, because a
    count without it would be too low.
    """
    reference = tasks.get(protocol.reference.name)
    by_reference = {} if reference is None else _passes(reference)
    rows = []
    for arm, table in tasks.items():
        if arm == protocol.reference.name:
            continue
        passes = _passes(table)
        measured = None if arm not in comparisons else _rows_of(comparisons[arm], protocol)
        for task in protocol.tasks:
            if task.name in passes:
                rows.append(
                    {
                        **_place(task, protocol, arm, spans[task.name]),
                        "passed": passes[task.name],
                        "reference_passed": by_reference.get(task.name),
                        **_drift(task, measured, protocol, spans[task.name]),
                    }
                )
    return pa.Table.from_pylist(rows, schema=TASK_DRIFT)


def _passes(table: pa.Table) -> dict[str, bool | None]:
    names = table["task"].to_pylist()
    found = dict(zip(names, table["passed"].to_pylist(), strict=True))
    if len(found) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise NotComparable(f"task {twice} stands twice", where="tasks of one arm", expected="one row each")
    return found


def _rows_of(comparison: pa.Table, protocol: Protocol) -> _Rows:
    with_tasks = {task.window for task in protocol.tasks}
    windows = tuple(window.name for window in protocol.windows if window.name in with_tasks)
    positions = positions_of(comparison, windows=windows)
    headline = headline_of(positions, protocol)
    return _Rows(
        positions=positions,
        headline=getattr(positions, headline.column),
        spec=headline.spec,
        strong=strong_overturn_mask(positions, protocol.bands),
        ranges=range_index(positions, protocol),
    )


def _place(task: Task, protocol: Protocol, arm: str, span: Span) -> dict[str, object]:
    window = protocol.window(task.window)
    inside = next(
        (item for item in protocol.ranges if item.window == task.window and item.start <= task.at < item.end), None
    )
    return {
        "arm": arm,
        "task": task.name,
        "window": task.window,
        "document": window.document,
        "panel": window.panel,
        "range": inside.name if inside else "",
        "kind": inside.kind if inside else "",
        "outlier": task.window in protocol.outlier_windows,
        "check": task.check,
        "from": span.start,
        "to": span.end,
        "spec": headline_spec(protocol, protocol.capture.top_k),
    }


_NOTHING: dict[str, object] = {
    **dict.fromkeys(("flips", "strong_overturns", "mean_nats", "max_nats", "p95_nats", "worst_p95_nats")),
    "positions": 0,
    "unknown": 0,
    "worst_range": "",
}


def _drift(task: Task, measured: _Rows | None, protocol: Protocol, span: Span) -> dict[str, object]:
    if measured is None:
        return {**_NOTHING, "reason": "no comparison of this arm"}
    positions = measured.positions
    here = positions.window == positions.windows.index(task.window)
    inside = here & (positions.position >= span.start) & (positions.position < span.end)
    worst = _worst_range(measured, protocol, here)
    found = {
        **_NOTHING,
        "spec": measured.spec,
        "worst_range": worst.name if worst else "",
        "worst_p95_nats": worst.value if worst else None,
    }
    if not inside.any():
        return {**found, "reason": "no scored position in the span"}
    flips, values = positions.flip[inside], measured.headline[inside]
    no_flip, no_value = np.isnan(flips), np.isnan(values)
    reasons = []
    if no_flip.any():
        reasons.append(f"best tokens not known at {int(no_flip.sum()):,} of {len(flips):,} positions")
    else:
        found["flips"] = int(flips.sum())
        # A band that is not known hides a strong overturn where there is a flip, and nothing elsewhere.
        if np.isnan(positions.reference_p1[inside][flips == 1]).any():
            reasons.append("the reference's confidence is not known at a flip")
        else:
            found["strong_overturns"] = int(measured.strong[inside].sum())
    if no_value.any():
        reasons.append(f"no finite {measured.spec} at {int(no_value.sum()):,} of {len(values):,} positions")
    else:
        (p95,) = quantiles(values, ("p95",))
        found |= {"mean_nats": float(values.mean()), "max_nats": float(values.max()), "p95_nats": p95.value}
        if p95.value is None:
            reasons.append(f"p95 of the span withheld: {p95.reason}")
    if worst is None:
        reasons.append("p95 of every range of the window withheld")
    return {
        **found,
        "positions": len(flips),
        "unknown": int((no_flip | no_value).sum()),
        "reason": "; ".join(reasons),
    }


class _Worst(NamedTuple):
    name: str
    value: float


def _worst_range(measured: _Rows, protocol: Protocol, here: np.ndarray) -> _Worst | None:
    """The range of a window with the largest p95 among those that are not withheld; the first of equals."""
    worst: _Worst | None = None
    for at in np.unique(measured.ranges[here & (measured.ranges >= 0)]):
        values = measured.headline[here & (measured.ranges == at)]
        finite = values[np.isfinite(values)]
        name = protocol.ranges[at].name
        found = span_statistic(SpanValues(name=name, cluster="", values=finite), P95)
        if found.state != WITHHELD and found.value is not None and (worst is None or found.value > worst.value):
            worst = _Worst(name, found.value)
    return worst
