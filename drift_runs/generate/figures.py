"""Rollouts as rows of the table of figures, so that they are stored, logged and shown like all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from drift_runs.generate.rollouts import RolloutComparison, Share, Sides
from drift_runs.generate.sampled import SampledComparison
from drift_runs.measure.figures import Figure, figures_table
from drift_runs.measure.intervals import small_cluster_note
from drift_runs.measure.quantiles import FIRM, WITHHELD
from drift_runs.measure.resampler import Resampler, plural


def rollout_figures(
    found: RolloutComparison,
    *,
    arm: str,
    resampler: Resampler,
    cut: bool = False,
    refused: Mapping[str, str] | None = None,
) -> pa.Table:
    """Table ``FIGURES`` of one comparison of rollouts: prompts are the clusters, and no window is an outlier.

    ``rollout.early_stop`` and ``rollout.loop`` count rollouts: statistics ``reference.count``, ``candidate.count`` (the
    left and the right side) and ``differ.count``. Early stops are left out where end tokens are not known.

    ``cut``: both sides were cut at their first end token, and it is said. ``refused``: of an arm whose server cannot be
    asked all prompts, those that are not compared and why: ``rollout.refused`` counts them.
    """
    note = f"run {found.run}, tokens compared by {found.compared_by}"
    if cut:
        note += ", each side up to its first end token"
    table = _table(_Readings(found, "rollout", "", len(found.prompts), len(found.prompts), note, {}), arm, resampler)
    return pa.concat_tables([table, refused_figures(refused, len(found.prompts), arm=arm)]) if refused else table


def refused_figures(
    refused: Mapping[str, str], compared: int, *, arm: str, spec: str = "rollout.refused", what: str = "prompts"
) -> pa.Table:
    """Table ``FIGURES`` of what a server cannot be asked, beside the number of what it was; by name, why."""
    first = next(iter(refused))
    return figures_table(
        Figure(
            arm=arm,
            spec=spec,
            statistic="count",
            outliers=outliers,
            scope_kind="all",
            scope="all",
            value=float(len(refused)),
            n=len(refused) + compared,
            reason=f"{what} that its server cannot be asked; {first}: {refused[first]}",
        )
        for outliers in ("with", "without")
    )


def sampled_figures(found: SampledComparison, *, arm: str, resampler: Resampler) -> pa.Table:
    """The same of decoding at one temperature: ``sampled.exact@0.7`` and so on, over all draws.

    ``n`` counts pairs of rollouts. The smallest and the largest share of a draw are said in ``reason``.
    """
    draws = plural(len(found.draws), "draw")
    note = f"common noise, {draws}, tokens compared by {found.compared_by}"
    spread = {}
    for name in ("exact", "prefix", "agree"):
        shares = [getattr(draw, name).value for draw in found.draws]
        spread[name] = f"{min(shares):.4g} to {max(shares):.4g} in a draw" if len(shares) > 1 else ""
    suffix = f"@{temperature_label(found.temperature)}"
    return _table(_Readings(found, "sampled", suffix, found.prompts, found.rollouts, note, spread), arm, resampler)


def temperature_label(temperature: float) -> str:
    """A temperature as a spec id carries it: the shortest decimal that reads as the same number, ``0.7`` and ``1``."""
    return np.format_float_positional(temperature, trim="-")


@dataclass(frozen=True, slots=True)
class _Readings:
    """What is written of either comparison."""

    found: RolloutComparison | SampledComparison
    family: str
    suffix: str
    prompts: int
    rollouts: int
    note: str
    spread: dict[str, str]

    def spec(self, name: str) -> str:
        return f"{self.family}.{name}{self.suffix}"


def _table(readings: _Readings, arm: str, resampler: Resampler) -> pa.Table:
    return figures_table(
        figure for outliers in ("with", "without") for figure in _figures(readings, arm, outliers, resampler)
    )


def _figures(readings: _Readings, arm: str, outliers: str, resampler: Resampler) -> Iterator[Figure]:
    found, rollouts = readings.found, readings.rollouts
    common: dict[str, Any] = {
        "arm": arm,
        "outliers": outliers,
        "scope_kind": "all",
        "scope": "all",
        "clusters": readings.prompts,
    }
    label = resampler.cluster_label(readings.prompts, "prompt")
    few = small_cluster_note(readings.prompts, "prompt")
    for name, share in (("exact", found.exact), ("prefix", found.prefix), ("agree", found.agree)):
        note = "; ".join(part for part in (readings.note, readings.spread.get(name, ""), few) if part)
        yield _share(common, readings.spec(name), share, rollouts, label, note)
    counts = (
        ("exact", "count", found.exact_count, rollouts),
        ("prefix", "tokens", found.prefix_tokens, found.tokens),
    )
    for name, statistic, value, n in counts:
        yield Figure(
            **common, spec=readings.spec(name), statistic=statistic, value=float(value), n=n, reason=readings.note
        )
    if found.early_stop is not None:
        yield from _sides(common, readings.spec("early_stop"), found.early_stop, rollouts, "rollouts with an end token")
    yield from _sides(
        common,
        readings.spec("loop"),
        found.loop,
        rollouts,
        "rollouts that repeat themselves before their first end token",
    )
    known = found.mean_abs_dlogprob_nats is not None
    yield Figure(
        **common,
        spec=f"{readings.family}.prefix.dlogprob{readings.suffix}",
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
            spec=readings.spec("first"),
            statistic="count",
            value=float(count),
            n=rollouts,
            reason="prompts whose first difference stands at this step, counted from 0",
        )


def _sides(common: dict[str, Any], spec: str, sides: Sides, rollouts: int, note: str) -> Iterator[Figure]:
    for side, value in (("reference", sides.left), ("candidate", sides.right)):
        yield Figure(**common, spec=spec, statistic=f"{side}.count", value=float(value), n=rollouts, reason=note)
    yield Figure(
        **common,
        spec=spec,
        statistic="differ.count",
        value=float(sides.differ),
        n=rollouts,
        reason=f"{note}: pairs of which it is not told alike",
    )


def _share(common: dict[str, Any], spec: str, share: Share, rollouts: int, label: str, note: str) -> Figure:
    return Figure(
        **common,
        spec=spec,
        statistic="share",
        value=share.value,
        n=rollouts,
        low=share.low,
        high=share.high,
        interval=label if share.low is not None else "",
        standard_error=share.standard_error,
        bca_low=share.bca_low,
        bca_high=share.bca_high,
        reason=note,
    )
