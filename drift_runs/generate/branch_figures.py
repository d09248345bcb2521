"""Figures of outcomes: what became of the roots that were explored, beside how many there are. METRICS, Generation.

The unit is a root and not a position: ``n`` counts explored roots here. Specs, one for each pair of futures::

    branches                 reference against candidate, each behind its own token
    branches.token           the reference's weights behind both tokens: the wrong token alone
    branches.weights         both weights behind the reference's token: the wrong weights alone

Statistics are the counts of :data:`COUNTS` and of every outcome by its name, and the shares of :data:`SHARES`. Behind
each spec ``.resync`` gives quantiles of the tokens until re-synchronisation, and ``.propagated`` what was carried on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.generate.outcomes import OUTCOMES, PAIRS
from drift_runs.generate.root_rows import SHARES, RootRows
from drift_runs.generate.roots import STRONG, Existing
from drift_runs.measure.answers import Bools
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.intervals import (
    Clusters,
    cluster_sums,
    intervals_of_sums,
    ratio_intervals,
    small_cluster_note,
)
from drift_runs.measure.outliers import choices
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.ranges import kinds_of
from drift_runs.measure.resampler import Floats, Resampler, plural
from drift_runs.measure.scopes import WHOLE
from drift_runs.measure.selected import Interval, number_or_none, whole_interval
from drift_runs.measure.survival import waiting_times
from drift_runs.protocol.model import Protocol

SPEC = "branches"
SPECS: Mapping[str, str] = {PAIRS[0]: SPEC, **{pair: f"{SPEC}.{pair}" for pair in PAIRS[1:]}}
COUNTS = ("explored", "strong_explored", "existing", "strong_existing")
VISITS = ("left", "kept", "refused")
LEVELS = {"p25": 0.25, "p50": 0.5, "p75": 0.75}


def branch_figures(
    outcomes: pa.Table,
    protocol: Protocol,
    *,
    arm: str,
    existing: Existing | None = None,
    visited: pa.Table | None = None,
    floors: Mapping[str, pa.Table] | None = None,
) -> pa.Table:
    """Table ``FIGURES`` from table ``OUTCOMES`` of one arm: all roots, those of each panel and of each kind of range.

    ``outcomes`` may hold rows of other arms too, constrained decodes of this one: each has figures of its own name.
    ``existing``: the roots of ``arm``, explored or not; without it nothing is said of them. ``visited``: of an arm
    whose flips nobody sees, the places where it was asked (schema ``ROOTS``, ``why`` one of :data:`VISITS`): statistics
    ``visited``, ``kept`` and ``refused`` count them. ``floors``: name -> table
    ``OUTCOMES`` of a floor of the same reference. Beside a share of ``branches`` stands the floor with the largest
    ``invalid`` in that scope, then ``invalid_any``, the first by name of equals.

    Shares have a cluster interval by the protocol's cluster, over kinds the percentile one alone, and none where all
    roots are alike. Tokens until re-synchronisation: quantiles by Kaplan and Meier (see ``measure.survival``) over the
    roots that re-synchronised and those that are unresolved, which are cut off at their length; roots that were settled
    otherwise can never re-synchronise and are left out and counted.
    """
    resampler = Resampler.of(protocol)
    null = {name: RootRows.of(floors[name], protocol) for name in sorted(floors or {})}
    names = dict.fromkeys([arm, *outcomes["arm"].to_pylist()])
    figures = []
    for name in names:
        chosen = np.array([value == name for value in outcomes["arm"].to_pylist()], dtype=bool)
        of_arm = RootRows.of(outcomes.filter(pa.array(chosen)), protocol)
        there = RootRows.of(existing.roots, protocol) if existing is not None and name == arm else None
        places = RootRows.of(visited, protocol) if visited is not None and name == arm else None
        for choice in choices(protocol):
            for scope in _scopes(protocol):
                figures += _figures(of_arm, there, places, null, resampler, name, choice, scope)
                if places is not None:
                    figures += _visits(places, name, choice, scope)
    return figures_table(figures)


def _scopes(protocol: Protocol) -> Iterator[tuple[str, str]]:
    yield "all", "all"
    yield from (("panel", panel.name) for panel in protocol.panels)
    yield from (("kind", kind) for kind in kinds_of(protocol))


def _figures(
    roots: RootRows,
    existing: RootRows | None,
    visited: RootRows | None,
    floors: Mapping[str, RootRows],
    resampler: Resampler,
    arm: str,
    choice: str,
    scope: tuple[str, str],
) -> Iterator[Figure]:
    """Every figure of one scope; none for a panel or kind without a root."""
    there = existing.inside(choice, scope) if existing is not None else None
    asked = ""
    if visited is not None:
        asked = f"of {plural(len(visited.inside(choice, scope)), 'place')} where it was asked"
    for pair, spec in SPECS.items():
        chosen = roots.inside(choice, scope, pair)
        first = pair == PAIRS[0]
        if not len(chosen) and not (first and (scope[0] == "all" or (there is not None and len(there)))):
            continue
        common = {"arm": arm, "scope_kind": scope[0], "scope": scope[1], "outliers": choice}
        inside = roots.clusters.take(chosen)
        common |= {"clusters": len(inside.labels)}
        yield from _counts(roots, chosen, existing if first else None, there, spec, common, asked if first else "")
        beside = _harshest(floors, choice, scope) if first else ("", None)
        yield from _shares(roots, chosen, inside, resampler, spec, common, beside)
        if len(chosen):
            yield from _resync(roots, chosen, resampler, f"{spec}.resync", common)
            yield from _propagated(roots, chosen, f"{spec}.propagated", common)


def _counts(
    roots: RootRows,
    chosen: NDArray[np.intp],
    existing: RootRows | None,
    there: NDArray[np.intp] | None,
    spec: str,
    common: Mapping[str, Any],
    asked: str,
) -> Iterator[Figure]:
    explored = len(chosen)
    strong = int((roots.columns["why"][chosen] == STRONG).sum())
    of, of_strong = asked, ""
    counts = []
    if existing is not None and there is not None:
        strong_there = int((existing.columns["why"][there] == STRONG).sum())
        of, of_strong = f"of {plural(len(there), 'flip')}", f"of {plural(strong_there, 'strong overturn')}"
        counts = [("existing", len(there), len(there), ""), ("strong_existing", strong_there, len(there), "")]
    outcome = list(roots.columns["outcome"][chosen])
    counts = [
        ("explored", explored, explored, of),
        ("strong_explored", strong, explored, of_strong),
        *counts,
        *((name, outcome.count(name), explored, "") for name in OUTCOMES),
    ]
    for statistic, value, n, reason in counts:
        yield Figure(**common, spec=spec, statistic=statistic, value=float(value), n=n, reason=reason)


def _visits(places: RootRows, arm: str, choice: str, scope: tuple[str, str]) -> Iterator[Figure]:
    """How many places an arm without rows was asked at, and what came of those where it has no future."""
    chosen = places.inside(choice, scope)
    if not len(chosen) and scope[0] != "all":
        return
    found = list(places.columns["why"][chosen])
    common = {"arm": arm, "scope_kind": scope[0], "scope": scope[1], "outliers": choice, "spec": SPEC}
    clusters = len(places.clusters.take(chosen).labels)
    for statistic, value, reason in (
        ("visited", len(chosen), "places where other arms left the reference, or where it is uncertain"),
        ("kept", found.count("kept"), "places where the arm writes the reference's token"),
        ("refused", found.count("refused"), "places that its server cannot be asked at"),
    ):
        yield Figure(**common, clusters=clusters, statistic=statistic, value=float(value), n=len(chosen), reason=reason)


def _harshest(floors: Mapping[str, RootRows], choice: str, scope: tuple[str, str]) -> tuple[str, Floats | None]:
    """Name and shares of the floor with the most invalid futures among those explored in the scope."""
    best: tuple[str, Floats | None] = ("", None)
    for name, roots in floors.items():
        if not len(chosen := roots.inside(choice, scope, PAIRS[0])):
            continue
        shares = roots.shares(chosen).mean(axis=0)
        if best[1] is None or tuple(shares[:2]) > tuple(best[1][:2]):
            best = (name, shares)
    return best


def _shares(
    roots: RootRows,
    chosen: NDArray[np.intp],
    clusters: Clusters,
    resampler: Resampler,
    spec: str,
    common: Mapping[str, Any],
    beside: tuple[str, Floats | None],
) -> Iterator[Figure]:
    count, n = len(clusters.labels), len(chosen)
    floor, floor_values = beside
    label = resampler.cluster_label(count, clusters.unit)
    if not n:
        for statistic in SHARES:
            yield Figure(
                **common, spec=spec, statistic=statistic, value=None, n=0, state=WITHHELD, reason="no root was explored"
            )
        return
    marks = roots.shares(chosen)
    intervals = _intervals(marks, clusters, resampler, whole=common["scope_kind"] in WHOLE)
    note = small_cluster_note(count, clusters.unit)
    for at, statistic in enumerate(SHARES):
        interval, reason = intervals[at], note
        if count >= 2 and (marks[:, at].all() or not marks[:, at].any()):
            alike = "every root is" if marks[0, at] else "no root is"
            interval, reason = Interval(), f"{alike}: resamples are all alike and give no interval"
        yield Figure(
            **common,
            spec=spec,
            statistic=statistic,
            value=float(marks[:, at].mean()),
            n=n,
            reason=reason,
            **interval._asdict(),
            interval=label if interval.low is not None else "",
            floor=floor,
            floor_value=None if floor_values is None else float(floor_values[at]),
        )


def _intervals(marks: Floats, clusters: Clusters, resampler: Resampler, *, whole: bool) -> list[Interval]:
    """Of the mean of each column of float64[n, m], between clusters."""
    count = len(clusters.labels)
    if count < 2:
        return [Interval()] * marks.shape[1]
    weights = np.ones(marks.shape)
    if whole:
        top, bottom = (cluster_sums(terms, clusters.index, count) for terms in (marks, weights))
        found = intervals_of_sums(top, bottom, resampler)
        intervals = [whole_interval(found, at) for at in range(marks.shape[1])]
        # Student's t on logs knows no upper limit; a share has one.
        return [one if one.t_high is None else one._replace(t_high=min(one.t_high, 1.0)) for one in intervals]
    bounds = ratio_intervals(marks, weights, clusters.index, count, resampler)
    return [
        Interval(low=number_or_none(bounds.low[at]), high=number_or_none(bounds.high[at]))
        for at in range(marks.shape[1])
    ]


def _resync(
    roots: RootRows, chosen: NDArray[np.intp], resampler: Resampler, spec: str, common: Mapping[str, Any]
) -> Iterator[Figure]:
    """Tokens of the candidate's future until the streams run together again."""
    tokens = roots.numbers("resync_candidate", chosen)
    happened: Bools = np.isfinite(tokens)
    cut = ~happened & (roots.columns["outcome"][chosen] == "unresolved")
    kept = happened | cut
    events, excluded = int(happened.sum()), int((~kept).sum())
    yield Figure(
        **common, spec=spec, statistic="count", value=float(events), n=len(chosen), reason="roots that re-synchronised"
    )
    note = (
        f"Kaplan-Meier: {events} re-synchronised, {int(cut.sum())} cut off before; "
        f"{excluded} settled otherwise and left out"
    )
    times = np.where(happened, tokens, roots.numbers("candidate_tokens", chosen))[kept]
    clusters = roots.clusters.take(chosen[kept])
    found = waiting_times(times, happened[kept], tuple(LEVELS.values()), clusters, resampler)
    few = small_cluster_note(len(clusters.labels), clusters.unit)
    for statistic, one in zip(LEVELS, found, strict=True):
        reason = note if one.value is not None else f"not reached; {note}"
        if one.low is not None and one.high is None:
            reason += "; the interval has no upper end"
        yield Figure(
            **(common | {"clusters": len(clusters.labels)}),
            spec=spec,
            statistic=statistic,
            value=one.value,
            n=int(kept.sum()),
            excluded=excluded,
            state=FIRM if one.value is not None else WITHHELD,
            reason=f"{reason}; {few}" if few else reason,
            low=one.low,
            high=one.high,
            interval=resampler.cluster_label(len(clusters.labels), clusters.unit) if one.low is not None else "",
        )


def _propagated(roots: RootRows, chosen: NDArray[np.intp], spec: str, common: Mapping[str, Any]) -> Iterator[Figure]:
    """Later literals and calls that carry a wrong value; of roots with a value that is known to be wrong."""
    later = roots.numbers("propagated", chosen)
    known = later[np.isfinite(later)]
    excluded = len(later) - len(known)
    reason = "of roots with a value that is known to be wrong"
    for statistic, value in (("count", known.sum()), ("roots", (known > 0).sum())):
        yield Figure(
            **common, spec=spec, statistic=statistic, value=float(value), n=len(known), excluded=excluded, reason=reason
        )
