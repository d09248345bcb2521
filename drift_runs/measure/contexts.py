"""Figures of a comparison of which only means by context are known, and the difference of two of them.

A context's mean weighs as many positions as it has, so the mean over contexts is the mean over positions. What needs
single positions (quantiles, tails, the largest value) is absent, and says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from drift_runs.errors import NotComparable
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.intervals import (
    ClusterIntervals,
    cluster_sums,
    intervals_of_sums,
    plural,
    small_cluster_note,
)
from drift_runs.measure.permutation import sign_flip
from drift_runs.measure.quantiles import FIRM, QUANTILES, WITHHELD
from drift_runs.measure.resampler import Floats, Resampler

UNIT = "document"
"""What a cluster of contexts is."""
ONLY_MEANS = "only means by context are known"
KL = "kl.full"
FLIP = "flip"


class Terms(NamedTuple):
    """A ratio of sums over contexts, float64[contexts] each; the weight is 0 where the value is missing."""

    tops: Floats
    weights: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDifference:
    """One figure of two candidates on the same contexts, left minus right."""

    spec: str
    statistic: str
    left: float | None
    right: float | None
    difference: float | None
    low: float | None
    high: float | None
    bca_low: float | None
    bca_high: float | None
    standard_error: float | None
    interval: str
    """Method, confidence and unit; empty when there is none."""
    reason: str
    n: int
    """Positions of the contexts that both know."""
    contexts: int
    excluded: int
    """Contexts left out because one side does not know them."""
    clusters: int
    left_lower: int
    """Contexts in which the left value is the lower one."""
    right_lower: int
    equal: int
    p_sign_flip: float | None
    """Cluster sign-flip permutation, two-sided: this one decides. McNemar's test needs the positions."""
    sign_flip: str
    """Exact or sampled, and of how many clusters; empty where there is no test."""


def summarise_contexts(table: pa.Table, *, arm: str, resampler: Resampler) -> pa.Table:
    """Every figure of a table of schema ``CONTEXTS`` as a table of schema ``FIGURES``.

    Over all contexts and each group: ``kl.full`` mean (weighted by positions) and window_mean, ``flip`` rate and count,
    with cluster intervals; the quantiles, maximum and tail share withheld with the reason.
    """
    groups = np.array(table["group"].to_pylist(), dtype=object)
    figures: list[Figure] = []
    scopes = [("all", "all", np.ones(table.num_rows, dtype=bool))]
    scopes += [("group", str(name), groups == name) for name in dict.fromkeys(groups) if name]
    for kind, name, chosen in scopes:
        common = {"arm": arm, "scope_kind": kind, "scope": name, "outliers": "with"}
        found = list(_scope_figures(table.filter(pa.array(chosen)), common, resampler))
        # No context is declared as an outlier, so both views are the same.
        figures += [*found, *(replace(figure, outliers="without") for figure in found)]
    return figures_table(figures)


def paired_contexts(left: pa.Table, right: pa.Table, *, resampler: Resampler) -> tuple[ContextDifference, ...]:
    """``kl.full`` mean and ``flip`` rate of two tables of schema ``CONTEXTS``, left minus right, by cluster.

    ``NotComparable`` unless both have the same contexts with the same clusters, groups and positions.
    """
    right = right.take(_order(left, right))
    for column in ("cluster", "group", "positions"):
        if left[column].to_pylist() != right[column].to_pylist():
            raise NotComparable(f"the contexts differ in {column}", expected="two candidates on the same contexts")
    index, labels = _clusters(left)
    found = []
    for spec, statistic in ((KL, "mean"), (FLIP, "rate")):
        ours, theirs = _terms(left, spec), _terms(right, spec)
        both = (ours.weights > 0) & (theirs.weights > 0)
        weights = np.where(both, ours.weights, 0.0)
        one, other = np.where(both, ours.tops, 0.0), np.where(both, theirs.tops, 0.0)
        gaps = one - other
        count = len(np.unique(index[both]))
        ends, label, reason = _ends(Terms(gaps, weights), index, len(labels), resampler, count)
        # Student's t on logs has no place here: a difference may be below zero.
        del ends["t_low"], ends["t_high"]
        total = weights.sum()
        kept = np.isin(np.arange(len(labels)), index[both])
        tested = sign_flip(cluster_sums(gaps[:, None], index, len(labels))[kept], seed=resampler.seed, unit=UNIT)
        found.append(
            ContextDifference(
                spec=spec,
                statistic=statistic,
                left=float(one.sum() / total) if total else None,
                right=float(other.sum() / total) if total else None,
                difference=float(gaps.sum() / total) if total else None,
                **ends,
                interval=label,
                reason=reason,
                n=int(total),
                contexts=int(both.sum()),
                excluded=int((~both).sum()),
                clusters=count,
                left_lower=int((gaps[both] < 0).sum()),
                right_lower=int((gaps[both] > 0).sum()),
                equal=int((gaps[both] == 0).sum()),
                p_sign_flip=float(tested.p[0]) if np.isfinite(tested.p[0]) else None,
                sign_flip=tested.method,
            )
        )
    return tuple(found)


def _scope_figures(table: pa.Table, common: dict[str, Any], resampler: Resampler) -> Iterator[Figure]:
    index, labels = _clusters(table)
    positions = table["positions"].to_numpy().astype(np.float64)
    kl, flip = _terms(table, KL), _terms(table, FLIP)
    plain = Terms(
        np.divide(kl.tops, kl.weights, out=np.zeros(len(index)), where=kl.weights > 0), 1.0 * (kl.weights > 0)
    )
    for spec, statistic, terms in ((KL, "mean", kl), (KL, "window_mean", plain), (FLIP, "rate", flip)):
        total = terms.weights.sum()
        count = len(np.unique(index[terms.weights > 0]))
        ends, label, reason = _ends(terms, index, len(labels), resampler, count)
        used = positions[terms.weights > 0].sum()
        yield Figure(
            **common,
            spec=spec,
            statistic=statistic,
            value=float(terms.tops.sum() / total) if total else None,
            n=int(used),
            excluded=int(positions.sum() - used),
            state=FIRM if total else WITHHELD,
            reason=reason if total else "no context has it",
            **ends,
            interval=label,
            clusters=count,
        )
    used, missing = int(flip.weights.sum()), int(positions.sum() - flip.weights.sum())
    if used:
        # A share of whole positions: what is left of a whole number is the rounding of its decimal text.
        counted = {"value": float(np.rint(flip.tops).sum())}
    else:
        counted = {"value": None, "state": WITHHELD, "reason": "no context has it"}
    yield Figure(**common, spec=FLIP, statistic="count", n=used, excluded=missing, **counted)
    for statistic in (*QUANTILES, "max", "tail_share"):
        yield Figure(
            **common, spec=KL, statistic=statistic, value=None, n=0, excluded=0, state=WITHHELD, reason=ONLY_MEANS
        )


def _terms(table: pa.Table, spec: str) -> Terms:
    """Weighted sums of each context; NaN and null weigh nothing."""
    column = "mean_nats" if spec == KL else "top1_agreement"
    values = table[column].to_numpy(zero_copy_only=False).astype(np.float64)
    known = np.isfinite(values)
    weights = np.where(known, table["positions"].to_numpy().astype(np.float64), 0.0)
    values = np.where(known, values if spec == KL else 1 - values, 0.0)
    return Terms(values * weights, weights)


def _clusters(table: pa.Table) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Each context's cluster as a number, and the names, in order of first appearance."""
    names = table["cluster"].to_pylist()
    labels = tuple(dict.fromkeys(names))
    code = {label: at for at, label in enumerate(labels)}
    return np.array([code[name] for name in names], dtype=np.int32), labels


def _ends(
    terms: Terms, index: NDArray[np.int32], clusters: int, resampler: Resampler, count: int
) -> tuple[dict[str, float | None], str, str]:
    """Ends of all intervals, their label, and the note on few clusters."""
    names = ("low", "high", "bca_low", "bca_high", "standard_error", "t_low", "t_high")
    note = small_cluster_note(count, UNIT)
    if count < 2:
        return dict.fromkeys(names), "", note
    top = cluster_sums(terms.tops[:, None], index, clusters)
    bottom = cluster_sums(terms.weights[:, None], index, clusters)
    kept = bottom[:, 0] > 0
    found: ClusterIntervals = intervals_of_sums(top[kept], bottom[kept], resampler)
    values = [*found.percentile, *found.bca, found.standard_error, *found.log_t_mean]
    ends = {name: float(end[0]) if np.isfinite(end[0]) else None for name, end in zip(names, values, strict=True)}
    return ends, resampler.cluster_label(count, UNIT), note


def _order(left: pa.Table, right: pa.Table) -> NDArray[np.int64]:
    """Rows of ``right`` in the order of ``left``'s contexts."""
    names = right["context"].to_pylist()
    place = {name: at for at, name in enumerate(names)}
    wanted = left["context"].to_pylist()
    if len(place) != len(names) or len(set(wanted)) != len(wanted):
        raise NotComparable("a context stands twice", expected="each context once")
    missing = [name for name in wanted if name not in place]
    if missing or len(names) != len(wanted):
        counted = f"{plural(left.num_rows, 'context')} and {right.num_rows:,}"
        raise NotComparable(f"not the same contexts ({counted})", expected="two candidates on the same contexts")
    return np.array([place[name] for name in wanted], dtype=np.int64)
