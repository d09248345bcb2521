"""Figures that weigh or count whole windows: the mean of window means, and in how many windows one side is higher."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from drift_runs.measure.arm_figures import Beside
from drift_runs.measure.figures import Figure
from drift_runs.measure.headline import Headline
from drift_runs.measure.intervals import cluster_intervals
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.ratios import HEADLINE
from drift_runs.measure.resampler import plural
from drift_runs.measure.selected import Interval, Selected, whole_interval
from drift_runs.protocol.model import Protocol

Floats = NDArray[np.float64]


def window_figures(
    common: dict, headline: Headline, found: Selected, beside: Beside, note: str, protocol: Protocol
) -> Iterator[Figure]:
    """``window_mean`` of the headline and every ``windows_above``; ``n`` of the latter counts windows."""
    yield _window_mean(common, headline, found, beside, note)
    made_here = protocol.capture.full_vocabulary == "yes"
    window = _windows(found)
    for spec, stem in _against_the_reference(found):
        reference, candidate = f"reference_{stem}", f"candidate_{stem}"
        known = all(np.isfinite(getattr(found.side.positions, name)).any() for name in (reference, candidate))
        if known or (made_here and "@" not in spec):
            upper, lower = found.values(candidate), found.values(reference)
            kept = _equally_known(window, upper, lower)
            absence = UNLIKE if len(window) and not kept.any() and known else "no positions"
            yield _above(common, spec, window[kept], upper[kept], lower[kept], absence, "")
    if beside.side is not None and not beside.borrowed:
        mine, floor = found.values(headline.column), beside.side.values(headline.column)
        both = np.isfinite(mine) & np.isfinite(floor)
        absence = headline.absence or "no position has both figures"
        yield _above(common, headline.spec, window[both], mine[both], floor[both], absence, beside.name)


UNLIKE = "in no window do both sides say it at as many positions"


def _equally_known(window: NDArray[np.int32], one: Floats, other: Floats) -> NDArray[np.bool_]:
    """Positions of the windows in which both sides are known equally often: bool[n].

    A list of the best entries says the text's own token where it is likely. A mean over those positions set against one
    over all of them would lie lower for that alone.
    """
    known, kept = (np.isfinite(one), np.isfinite(other)), np.zeros(len(window), dtype=bool)
    for at in np.unique(window):
        here = window == at
        kept[here] = known[0][here].sum() == known[1][here].sum() > 0
    return kept


def _windows(found: Selected) -> NDArray[np.int32]:
    return found.side.positions.window[found.chosen]


def _against_the_reference(found: Selected) -> list[tuple[str, str]]:
    pairs = [("nll", "nll_nats"), ("entropy.full", "entropy_nats")]
    positions = found.side.positions
    if positions.top_k is not None and not np.isfinite(positions.reference_entropy_nats).any():
        pairs.append((f"entropy.topk@{positions.top_k}", "entropy_topk_nats"))
    return pairs


def window_means(window: NDArray[np.int32], values: Floats) -> dict[int, float]:
    """Mean of the finite values of each window that has some; both arrays over the same n positions."""
    finite = np.isfinite(values)
    return {int(at): float(values[finite & (window == at)].mean()) for at in np.unique(window[finite])}


def _window_mean(common: dict, headline: Headline, found: Selected, beside: Beside, note: str) -> Figure:
    """Mean of window means of the headline: every window weighs the same, however long it is."""
    window = _windows(found)
    means = window_means(window, found.values(headline.column))
    here = {
        **common,
        **beside.labels(),
        "spec": headline.spec,
        "statistic": "window_mean",
        "n": int(found.sums.used[HEADLINE]),
        "excluded": int(found.sums.excluded[HEADLINE]),
    }
    if not means:
        return Figure(**here, value=None, state=WITHHELD, reason=headline.absence or "no positions")
    values = np.array(list(means.values()))
    clusters = found.inside.take(np.array([int(np.flatnonzero(window == at)[0]) for at in means]))
    count = len(clusters.labels)
    ones = np.ones((len(values), 1))
    interval = Interval()
    if count >= 2:
        interval = whole_interval(cluster_intervals(values[:, None], ones, clusters.index, count, found.resampler), 0)
    floor_value = None
    if beside.side is not None:
        floor = window_means(window, beside.side.values(headline.column))
        floor_value = float(np.mean(list(floor.values()))) if floor else None
    return Figure(
        **here,
        value=float(values.mean()),
        reason=note,
        **interval._asdict(),
        interval=found.resampler.cluster_label(count, clusters.unit) if interval.low is not None else "",
        floor_value=floor_value,
    )


def _above(
    common: dict, spec: str, window: NDArray[np.int32], upper: Floats, lower: Floats, absence: str, floor: str
) -> Figure:
    """In how many windows the mean of ``upper`` lies above the mean of ``lower``; ``floor``: whose mean that is."""
    one, other = window_means(window, upper), window_means(window, lower)
    both = [at for at in other if at in one]
    against = f", against floor {floor}" if floor else ""
    return Figure(
        **common,
        spec=spec,
        statistic="windows_above",
        value=float(sum(one[at] > other[at] for at in both)) if both else None,
        n=len(both),
        state=FIRM if both else WITHHELD,
        reason=f"of {plural(len(both), 'window')}{against}" if both else absence,
        floor=floor,
    )
