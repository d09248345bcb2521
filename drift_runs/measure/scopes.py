"""The scopes that figures are given over: named selections of positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.flips import BANDS, band_index
from drift_runs.measure.history import bucket_index, bucket_labels, depth_index, depth_label, quarter_index
from drift_runs.measure.positions import Positions
from drift_runs.measure.ranges import kinds_of
from drift_runs.protocol.model import Protocol

SCOPE_KINDS = (
    "all",
    "panel",
    "role",
    "group",
    "kind",
    "range",
    "window",
    "history",
    "depth",
    "quarter",
    "band",
    "copied",
    "literal",
    "step",
)
"""Every kind of scope, in the order of a table of figures.

``role`` is prompt or generated, ``group`` the group that the protocol gives a window, ``depth`` a bucket of
``history.depth_tokens``, ``quarter`` a quarter of the window (:func:`history.quarter_index`), ``copied`` whether the
token completes an n-gram that ended long before, ``literal`` whether it lies in a literal that occurs earlier,
``step`` a step of a rollout, counted from 0.
"""

WHOLE = ("all", "panel", "role", "group")
"""Kinds that pool several texts: they have every figure, and the verdict."""

ROLES = ("prompt", "generated")
QUARTERS = ("q1", "q2", "q3", "q4")


class Scope(NamedTuple):
    """A named selection of positions."""

    kind: str
    name: str
    chosen: NDArray[np.bool_]


def scopes_of(positions: Positions, protocol: Protocol, range_at: NDArray[np.int32]) -> tuple[Scope, ...]:
    """Every scope of a protocol, as masks over ``positions``; ``range_at`` is :func:`ranges.range_index` of them.

    A scope may be empty. Positions whose band, copy or literal mark is not known lie in no scope of that kind.
    """
    return tuple(_scopes(positions, protocol, range_at))


def _scopes(positions: Positions, protocol: Protocol, range_at: NDArray[np.int32]) -> Iterator[Scope]:
    yield Scope("all", "all", np.ones(len(positions), dtype=bool))
    windows = [protocol.window(name) for name in positions.windows]
    for panel in protocol.panels:
        yield _of_windows("panel", panel.name, positions, [window.panel == panel.name for window in windows])
    for role in ROLES:
        yield Scope("role", role, positions.generated == (role == "generated"))
    for group in dict.fromkeys(window.group for window in protocol.windows if window.group):
        yield _of_windows("group", group, positions, [window.group == group for window in windows])
    for kind, spans in kinds_of(protocol).items():
        yield Scope("kind", kind, np.isin(range_at, spans))
    for at, span in enumerate(protocol.ranges):
        yield Scope("range", span.name, range_at == at)
    for at, name in enumerate(positions.windows):
        yield Scope("window", name, positions.window == at)
    bucket = bucket_index(positions.position, protocol.history.buckets)
    for at, label in enumerate(bucket_labels(protocol.history.buckets)):
        yield Scope("history", label, bucket == at)
    width = protocol.history.depth_tokens
    depth = depth_index(positions.position, width)
    for at in np.unique(depth):
        yield Scope("depth", depth_label(int(at), width), depth == at)
    quarter = quarter_index(positions, protocol)
    for at, name in enumerate(QUARTERS):
        yield Scope("quarter", name, quarter == at)
    band = band_index(positions.reference_p1, protocol.bands)
    for at, name in enumerate(BANDS):
        yield Scope("band", name, band == at)
    for kind, name, marks in (("copied", "copy", positions.copy), ("literal", "literal", positions.literal)):
        yield Scope(kind, name, marks == 1)
        yield Scope(kind, f"not-{name}", marks == 0)


def _of_windows(kind: str, name: str, positions: Positions, members: list[bool]) -> Scope:
    return Scope(kind, name, np.isin(positions.window, np.flatnonzero(members)))
