"""Two comparisons with the same reference, position by position, where no protocol names the windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from drift_runs.measure.file_averages import Ends, Layout, Scopes
from drift_runs.measure.permutation import mcnemar, sign_flip
from drift_runs.measure.positions import positions_of
from drift_runs.measure.resampler import Resampler
from drift_runs.measure.specs import DIVERGENCES

FLIPS = (("flip", "flip"), ("flip.strict", "flip_strict"))
"""(spec, field of ``Positions``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """One figure of two comparisons with the same reference, left minus right, where both have it."""

    spec: str
    left: float | None
    right: float | None
    difference: float | None
    ends: Ends
    n: int
    excluded: int
    """Positions that either side has and that do not have both figures."""
    left_lower: int
    """Positions at which the left value is the lower one; of a flip, where only the right side flips."""
    right_lower: int
    equal: int
    p_sign_flip: float | None
    """Cluster sign-flip permutation, two-sided: this one decides."""
    sign_flip: str
    p_mcnemar: float | None
    """Exact, of flips, positions independent."""


def file_differences(
    left: pa.Table, right: pa.Table, layout: Layout, resampler: Resampler
) -> tuple[FileDifference, ...]:
    """Every divergence and flip that both tables of schema ``COMPARISON`` have, left minus right.

    The clusters of the positions that both have are resampled together, so what is hard for both cancels.
    """
    ours = positions_of(left)
    theirs = positions_of(right, windows=ours.windows)
    _, at, other = np.intersect1d(ours.keys(), theirs.keys(), assume_unique=True, return_indices=True)
    alone = left.num_rows + right.num_rows - 2 * len(at)
    ours, theirs = ours.take(at), theirs.take(other)
    scopes = Scopes(ours, layout, resampler)
    same_k = ours.top_k == theirs.top_k
    wanted = [
        (item.spec(ours.top_k), item.column)
        for item in DIVERGENCES
        if not item.needs_k or (same_k and ours.top_k is not None)
    ]
    found = []
    for spec, field in (*wanted, *FLIPS, ("dnll", "dnll_nats")):
        one, two = getattr(ours, field), getattr(theirs, field)
        both = np.isfinite(one) & np.isfinite(two)
        if not both.any():
            continue
        gaps = np.where(both, one - two, np.nan)
        mean = scopes.average(gaps)
        tested = sign_flip(scopes.sums(gaps)[0], seed=resampler.seed, unit=layout.unit)
        lower, higher = int((gaps[both] < 0).sum()), int((gaps[both] > 0).sum())
        found.append(
            FileDifference(
                spec=spec,
                left=float(one[both].sum() / both.sum()),
                right=float(two[both].sum() / both.sum()),
                difference=mean.value,
                ends=mean.ends,
                n=mean.n,
                excluded=mean.excluded + alone,
                left_lower=lower,
                right_lower=higher,
                equal=mean.n - lower - higher,
                p_sign_flip=float(tested.p[0]) if np.isfinite(tested.p[0]) else None,
                sign_flip=tested.method,
                p_mcnemar=mcnemar(higher, lower) if (spec, field) in FLIPS else None,
            )
        )
    return tuple(found)
