"""How many of the positions of a stretch were scored: what must stand beside a figure of a sample. METRICS, Summaries.

A stretch is a labelled range, or a window from its first to its last scored position, or what lies of the windows in a
bucket of history or depth. Where all of it is scored there is nothing to say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.figures import Figure
from drift_runs.measure.history import bucket_index, depth_index
from drift_runs.measure.positions import Positions
from drift_runs.measure.ranges import kinds_of
from drift_runs.measure.scopes import WHOLE, Scope
from drift_runs.protocol.model import Protocol, Window

SPEC, STATISTIC = "coverage", "share"

_BY_WINDOW = (*WHOLE, "window")
_END = np.iinfo(np.int64).max


class Coverage:
    """The stretches of one comparison."""

    def __init__(self, arm: str, positions: Positions, protocol: Protocol) -> None:
        self.arm = arm
        self.positions = positions
        self.history = protocol.history
        by_name = {window.name: window for window in protocol.windows}
        self.stretches = Stretches([by_name[name] for name in positions.windows])
        present = set(positions.windows)
        spans = {span.name: span for span in protocol.ranges if span.window in present}
        self._ranges = {name: (span.window, span.end - span.start) for name, span in spans.items()}
        self._kinds = {kind: [protocol.ranges[at].name for at in inside] for kind, inside in kinds_of(protocol).items()}

    def figure(self, scope: Scope, outliers: str, chosen: NDArray[np.intp], kept: NDArray[np.bool_]) -> Figure | None:
        """Scored positions over the positions of the scope's stretch; None for all of them, and for no stretch.

        ``chosen``: the scope's positions; ``kept``: bool[n], those of this choice of outliers, whose windows a bucket
        runs through.
        """
        if not len(chosen):
            return None
        of = self._stretch(scope, chosen, kept)
        return share_figure(self.arm, scope.kind, scope.name, outliers, scored=len(chosen), of=of)

    def _stretch(self, scope: Scope, chosen: NDArray[np.intp], kept: NDArray[np.bool_]) -> int:
        """Length of a scope's stretch, 0 for one that has none."""
        if scope.kind in _BY_WINDOW:
            return self.stretches.within(np.unique(self.positions.window[chosen]))
        if scope.kind == "range":
            return self._ranges[scope.name][1]
        windows = np.unique(self.positions.window[kept])
        at = self.positions.position[chosen[:1]]
        match scope.kind:
            case "history":
                edges = (0, *self.history.buckets, _END - 1)
                bucket = int(bucket_index(at, self.history.buckets)[0])
                return self.stretches.within(windows, edges[bucket] + 1, edges[bucket + 1] + 1)
            case "depth":
                start = int(depth_index(at, self.history.depth_tokens)[0]) * self.history.depth_tokens + 1
                return self.stretches.within(windows, start, start + self.history.depth_tokens)
            case "kind":
                names = {self.positions.windows[at] for at in windows}
                spans = [self._ranges[name] for name in self._kinds[scope.name] if name in self._ranges]
                return sum(length for window, length in spans if window in names)
        return 0


class Stretches:
    """First and last scored positions of windows."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.first = np.array([window.scored[0][0] for window in windows], dtype=np.int64)
        self.end = np.array([window.scored[-1][1] for window in windows], dtype=np.int64)

    def within(self, windows: NDArray[np.integer], start: int = 0, end: int = _END) -> int:
        """Positions of the stretches of those windows, int[m], that lie inside [start, end)."""
        lengths = np.minimum(self.end[windows], end) - np.maximum(self.first[windows], start)
        return int(np.maximum(lengths, 0).sum())


def share_figure(arm: str, kind: str, name: str, outliers: str, *, scored: int, of: int) -> Figure | None:
    """The figure of so many scored positions in a stretch of ``of``; None where that is all of them."""
    if scored >= of:
        return None
    return Figure(
        arm=arm,
        scope_kind=kind,
        scope=name,
        outliers=outliers,
        spec=SPEC,
        statistic=STATISTIC,
        value=scored / of,
        n=scored,
        reason=f"{scored:,} of {of:,} positions are scored",
    )
