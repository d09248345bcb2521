"""Rollouts as rows of the table of figures, so that they are stored, logged and shown like all others."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from drift_runs.generate.rollouts import RolloutComparison, Share
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.intervals import small_cluster_note
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.resampler import Resampler


def rollout_figures(found: RolloutComparison, *, arm: str, resampler: Resampler) -> pa.Table:
    """Table ``FIGURES`` of one comparison of rollouts: prompts are the clusters, and no window is an outlier."""
    return figures_table(
        figure for outliers in ("with", "without") for figure in _figures(found, arm, outliers, resampler)
    )


def _figures(found: RolloutComparison, arm: str, outliers: str, resampler: Resampler) -> Iterator[Figure]:
    prompts = len(found.prompts)
    common = {"arm": arm, "outliers": outliers, "scope_kind": "all", "scope": "all", "clusters": prompts}
    label = resampler.cluster_label(prompts, "prompt")
    note = f"run {found.run}, tokens compared by {found.compared_by}"
    few = small_cluster_note(prompts, "prompt")
    for spec, share in (
        ("rollout.exact", found.exact),
        ("rollout.prefix", found.prefix),
        ("rollout.agree", found.agree),
    ):
        yield _share(common, spec, share, prompts, label, f"{note}; {few}" if few else note)
    counts = (
        ("rollout.exact", "count", found.exact_count, prompts),
        ("rollout.prefix", "tokens", found.prefix_tokens, found.tokens),
    )
    for spec, statistic, value, n in counts:
        yield Figure(**common, spec=spec, statistic=statistic, value=float(value), n=n, reason=note)
    known = found.mean_abs_dlogprob_nats is not None
    yield Figure(
        **common,
        spec="rollout.prefix.dlogprob",
        statistic="mean_abs",
        value=found.mean_abs_dlogprob_nats,
        n=found.logprobs,
        excluded=found.logprobs_excluded,
        state=FIRM if known else WITHHELD,
        reason="over the tokens of the equal prefixes" if known else "no log-probability is known on both sides",
    )
    for step, count in found.first:
        yield Figure(
            **{**common, "scope_kind": "step", "scope": str(step)},
            spec="rollout.first",
            statistic="count",
            value=float(count),
            n=prompts,
            reason="prompts whose first difference stands at this step, counted from 0",
        )


def _share(common: dict, spec: str, share: Share, prompts: int, label: str, note: str) -> Figure:
    return Figure(
        **common,
        spec=spec,
        statistic="share",
        value=share.value,
        n=prompts,
        low=share.low,
        high=share.high,
        interval=label if share.low is not None else "",
        standard_error=share.standard_error,
        bca_low=share.bca_low,
        bca_high=share.bca_high,
        reason=note,
    )
