"""Do the figures put the arms in the same order? Kendall's tau-b, table ``AGREEMENT``. METRICS, Summaries.

An order goes from the arm nearest to its reference to the one farthest from it. Most figures are larger the farther an
arm is; of exact answers, equal rollouts and passed tasks more are better, so their order is turned round before it is
compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.measure.outliers import WITH, WITHOUT
from drift_runs.measure.quantiles import WITHHELD
from drift_runs.measure.resampler import plural
from drift_runs.measure.specs import base_of, is_divergence
from drift_runs.schema import AGREEMENT

LEAST_ARMS = 3

_DIVERGENCE_STATISTICS = ("mean", "p95", "worst_range.p95")
_OTHERS = (
    ("flip", "rate"),
    ("flip.strict", "rate"),
    ("strong_overturn", "count"),
    ("answer.exact", "rate"),
    ("dnll", "mean"),
    ("dentropy.full", "mean"),
    ("dentropy.topk", "mean"),
    ("branches", "invalid"),
    ("rollout.exact", "share"),
    ("task.passed", "rate"),
)
_LARGER_IS_NEARER = frozenset([("answer.exact", "rate"), ("rollout.exact", "share"), ("task.passed", "rate")])


class Order(NamedTuple):
    """How the pairs of n values in two lists stand."""

    concordant: int
    discordant: int
    tied: int
    """Equal in either list."""
    tau: float | None
    """Kendall's tau-b; None where one list is all equal, or for fewer than two values."""


def order_of(x: Sequence[float], y: Sequence[float]) -> Order:
    """Pairs of two lists of finite numbers, and tau-b of them (Kendall 1945). ``ValueError`` for anything else."""
    left, right = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 1 or not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ValueError("Kendall's tau: expected two lists of as many finite numbers")
    one, other = np.triu_indices(len(left), 1)
    # Compared and not subtracted: a difference of two large values overflows, one of two tiny ones may vanish.
    by_left = (left[one] > left[other]).astype(np.int64) - (left[one] < left[other])
    by_right = (right[one] > right[other]).astype(np.int64) - (right[one] < right[other])
    agree = by_left * by_right
    concordant, discordant = int((agree > 0).sum()), int((agree < 0).sum())
    ordered = int((by_left != 0).sum()) * int((by_right != 0).sum())
    return Order(
        concordant=concordant,
        discordant=discordant,
        tied=len(agree) - concordant - discordant,
        tau=(concordant - discordant) / math.sqrt(ordered) if ordered else None,
    )


def kendall_tau(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Kendall's tau-b of two lists; None where it is undefined."""
    return order_of(x, y).tau


def agreement_table(figures: Mapping[str, pa.Table]) -> pa.Table:
    """Table ``AGREEMENT``: every two figures of those below, over all positions, with and without outliers.

    ``figures``: arm -> table ``FIGURES``. The figures are the mean, p95 and worst range of the headline (a divergence
    that has quantiles), flip rates, strong overturns, exact answers, the means of ``dnll`` and of the entropy's
    difference, and of free generation invalid futures, equal rollouts and passed tasks. What falls where the others
    rise is turned round, so that a tau of 1 says of it too that both figures put the same arm first. An arm whose
    value is withheld or absent in either figure is left out of that row and counted in its reason; fewer than three
    arms have no order to speak of.
    """
    by_choice = {choice: _values(figures, choice) for choice in (WITH, WITHOUT)}
    rows = [row for choice, values in by_choice.items() for row in _rows(values, len(figures), choice)]
    columns = {field.name: pa.array([row[field.name] for row in rows], type=field.type) for field in AGREEMENT}
    return pa.table(columns, schema=AGREEMENT)


def _values(figures: Mapping[str, pa.Table], choice: str) -> dict[str, dict[str, float]]:
    """Figure -> arm -> value, of the figures that at least one arm has; withheld and absent values are not there."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for arm, table in figures.items():
        kept = table.filter(pc.and_(pc.equal(table["scope_kind"], "all"), pc.equal(table["outliers"], choice)))
        rows = kept.select(["spec", "statistic", "value", "state"]).to_pylist()
        headlines = {row["spec"] for row in rows if is_divergence(row["spec"]) and row["statistic"] == "p95"}
        for row in rows:
            spec, statistic = row["spec"], row["statistic"]
            if not (
                (spec in headlines and statistic in _DIVERGENCE_STATISTICS) or (base_of(spec), statistic) in _OTHERS
            ):
                continue
            values = found.setdefault((spec, statistic), {})
            if row["state"] != WITHHELD and row["value"] is not None and math.isfinite(row["value"]):
                values[arm] = -row["value"] if (spec, statistic) in _LARGER_IS_NEARER else row["value"]
    return {"/".join(key): found[key] for key in sorted(found, key=_place)}


def _place(key: tuple[str, str]) -> tuple[int, str, str]:
    """Divergences first, then the others in their order."""
    spec, statistic = key
    if is_divergence(spec):
        return _DIVERGENCE_STATISTICS.index(statistic), spec, statistic
    return len(_DIVERGENCE_STATISTICS) + _OTHERS.index((base_of(spec), statistic)), spec, statistic


def _rows(values: dict[str, dict[str, float]], arms: int, choice: str) -> Iterator[dict[str, object]]:
    for left, right in combinations(values, 2):
        both = [arm for arm in values[left] if arm in values[right]]
        order = order_of([values[left][arm] for arm in both], [values[right][arm] for arm in both])
        tau = order.tau if len(both) >= LEAST_ARMS else None
        reasons = []
        if len(both) < LEAST_ARMS:
            reasons.append(f"{plural(len(both), 'arm')} with both figures, {LEAST_ARMS} needed")
        elif tau is None:
            flat = left if len({values[left][arm] for arm in both}) == 1 else right
            reasons.append(f"every arm has the same {flat}")
        if len(both) < arms:
            reasons.append(f"{plural(arms - len(both), 'arm')} left out: withheld or absent")
        yield {
            "left": left,
            "right": right,
            "outliers": choice,
            "tau": tau,
            "arms": len(both),
            "concordant": order.concordant,
            "discordant": order.discordant,
            "tied": order.tied,
            "reason": "; ".join(reasons),
        }
