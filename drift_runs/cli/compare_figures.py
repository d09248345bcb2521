"""The figures of ``drift compare`` as JSON values, by spec id."""

from __future__ import annotations

from typing import Any

from drift_runs.generate.rollouts import RolloutComparison, Share, Sides
from drift_runs.measure.contexts import ContextDifference
from drift_runs.measure.determinism import DeterminismSummary
from drift_runs.measure.file_averages import Average, Ends
from drift_runs.measure.file_differences import FileDifference
from drift_runs.measure.file_figures import DivergenceFigures, FileFigures, RateFigures, Support
from drift_runs.measure.quantiles import FIRM, QUANTILE_RULE

Json = dict[str, Any]
MEDIAN = "p50"
NO_ENDS = "which tokens end a turn is not known: name them with --end-token, for files that give token ids"
_ENDS = ("low", "high", "bca_low", "bca_high", "standard_error", "t_low", "t_high", "clusters")


def of_files(found: FileFigures) -> Json:
    """Figures of one comparison."""
    figures: Json = {}
    for divergence in found.divergences:
        figures[divergence.spec] = _divergence(divergence, found.support)
    for rate in found.rates:
        figures[rate.spec] = _rate(rate)
    for spec, mean in found.means:
        figures[spec] = _mean(mean)
    figures |= {spec: {"reason": reason} for spec, reason in found.unsaid}
    return figures


def of_rows(found: DeterminismSummary) -> Json:
    """Whether the rows are the same bytes, by the row hash that both have."""
    if not found.row_hash:
        return {}
    first = found.first_difference
    return {
        found.row_hash: {
            "identical": found.rows_identical,
            "n": found.rows,
            "unhashable": found.rows_unhashable,
            "windows_identical": found.windows_identical,
            "windows": found.windows,
            "max_abs_dlogprob": found.max_abs_dlogprob,
            "first_difference": None if first is None else {"window": first[0], "position": first[1]},
        }
    }


def of_two(a: FileFigures, b: FileFigures, differences: tuple[FileDifference, ...]) -> Json:
    """Figures of two candidates against one reference, and how far they lie apart, a minus b."""
    ours, theirs = of_files(a), of_files(b)
    figures: Json = {spec: {"a": ours.get(spec), "b": theirs.get(spec)} for spec in dict.fromkeys([*ours, *theirs])}
    for item in differences:
        is_flip = item.p_mcnemar is not None
        figures.setdefault(item.spec, {})
        figures[item.spec] |= {
            "rate_difference" if is_flip else "mean_difference": item.difference,
            **_difference_ends(item.ends),
            "n": item.n,
            "excluded": item.excluded,
            # Where only one side flips, that side has the higher value.
            **({"a_only": item.right_lower, "b_only": item.left_lower} if is_flip else {}),
            **({} if is_flip else {"a_lower": item.left_lower, "b_lower": item.right_lower}),
            "equal": item.equal,
            "p_sign_flip": item.p_sign_flip,
            "sign_flip": item.sign_flip,
            **({"p_mcnemar_positions_independent": item.p_mcnemar} if is_flip else {}),
        }
    return figures


def of_contexts(a: list[Json], b: list[Json], differences: tuple[ContextDifference, ...]) -> Json:
    """The same from rows of table ``FIGURES`` of two files of means by context."""
    figures: Json = {}
    for item in differences:
        is_flip = item.statistic == "rate"
        figures[item.spec] = {
            "a": {**_context_figures(a, item.spec, item.statistic), "contexts": item.contexts + item.excluded},
            "b": {**_context_figures(b, item.spec, item.statistic), "contexts": item.contexts + item.excluded},
            "rate_difference" if is_flip else "mean_difference": item.difference,
            "ci95": _pair(item.low, item.high),
            "bca95": _pair(item.bca_low, item.bca_high),
            "standard_error": item.standard_error,
            "clusters": item.clusters,
            "interval": item.interval,
            "note": item.reason,
            "n": item.n,
            "contexts": item.contexts,
            "excluded_contexts": item.excluded,
            "a_lower": item.left_lower,
            "b_lower": item.right_lower,
            "equal": item.equal,
            "p_sign_flip": item.p_sign_flip,
            "sign_flip": item.sign_flip,
        }
    return figures


def of_rollouts(found: RolloutComparison) -> Json:
    """Every reading of the rollouts."""
    prompts = len(found.prompts)
    return {
        "rollout.exact": {"count": found.exact_count, **_share(found.exact), "n": prompts},
        "rollout.prefix": {"tokens": found.prefix_tokens, **_share(found.prefix), "of": found.tokens, "n": prompts},
        "rollout.agree": {
            "tokens": sum(item.agreeing_tokens for item in found.prompts),
            **_share(found.agree),
            "of": found.tokens,
            "n": prompts,
        },
        "rollout.first": {"counts": {str(step): count for step, count in found.first}, "none": found.exact_count},
        "rollout.prefix.dlogprob": {
            "mean_abs": found.mean_abs_dlogprob_nats,
            "n": found.logprobs,
            "excluded": found.logprobs_excluded,
        },
        "rollout.early_stop": _sides(found.early_stop, prompts)
        if found.early_stop is not None
        else {"a": None, "b": None, "differ": None, "n": 0, "reason": NO_ENDS},
        "rollout.loop": _sides(found.loop, prompts),
    }


def _sides(found: Sides, prompts: int) -> Json:
    """Rollouts of a and of b in which it was found, and prompts of which it is not told alike."""
    return {"a": found.left, "b": found.right, "differ": found.differ, "n": prompts}


def _divergence(found: DivergenceFigures, support: Support | None) -> Json:
    if found.reason:
        return {"n": 0, "excluded": found.mean.excluded, "reason": found.reason}
    values: Json = {
        "mean": found.mean.value,
        "median": next(item.linear for item in found.quantiles if item.name == MEDIAN),
    }
    for item in found.quantiles:
        if item.name != MEDIAN:
            values[item.name] = item.linear
    values |= {
        "max": found.largest,
        "min": found.smallest,
        "n": found.mean.n,
        "excluded": found.mean.excluded,
        **_ends(found.mean.ends),
        "window_mean": found.window_mean,
        "tail_share": found.tail.value,
        "exactly_zero": found.exactly_zero,
        "infinite": found.infinite,
        "quantile_rule": QUANTILE_RULE,
    }
    for item in found.quantiles:
        if item.lower != item.linear:
            values[("median" if item.name == MEDIAN else item.name) + "_lower"] = item.lower
    guarded = [item for item in found.quantiles if item.name != MEDIAN]
    values["beyond"] = {item.name: item.beyond for item in guarded}
    values["states"] = {item.name: item.state for item in guarded if item.state != FIRM}
    base = found.spec.partition("@")[0]
    if support is not None and base in ("kl.topk-shared", "kl.topk-lower"):
        values |= {
            "shared_support_mean": support.shared_mean,
            "shared_support_min": support.shared_least,
            "reference_mass_outside_mean": support.outside_mean,
            "reference_mass_outside_max": support.outside_largest,
            "reference_mass_dropped_mean": support.dropped_mean,
            "reference_mass_dropped_max": support.dropped_largest,
        }
    if support is not None and base == "kl.topk-shared":
        values["support_collapse"] = support.collapsed
    if support is not None and base == "kl.topk-floor":
        values["missed_share"] = support.missed_share
    if base in ("kl.topk-tail", "kl.topk-lower"):
        values["tail_floored"] = found.floored
    return values | {"bounds": found.bounds, "groups": {name: _mean(mean) for name, mean in found.groups}}


def _mean(mean: Average) -> Json:
    return {"mean": mean.value, "n": mean.n, "excluded": mean.excluded, **_ends(mean.ends)}


def _rate(found: RateFigures) -> Json:
    def one(rate: Average) -> Json:
        return {
            "rate": rate.value,
            "count": int(rate.total),
            "n": rate.n,
            "excluded": rate.excluded,
            **_ends(rate.ends),
        }

    return one(found.rate) | {"groups": {name: one(rate) for name, rate in found.groups}}


def _ends(ends: Ends) -> Json:
    values: Json = {
        "low": ends.low,
        "high": ends.high,
        "bca_low": ends.bca_low,
        "bca_high": ends.bca_high,
        "standard_error": ends.standard_error,
        "clusters": ends.clusters,
    }
    if ends.t_low is not None:
        values |= {"t_low": ends.t_low, "t_high": ends.t_high}
    if ends.note:
        values["note"] = ends.note
    return values


def _difference_ends(ends: Ends) -> Json:
    """Of a difference. Student's t on logs has no place here: a difference may be below zero."""
    return {
        "ci95": _pair(ends.low, ends.high),
        "bca95": _pair(ends.bca_low, ends.bca_high),
        "standard_error": ends.standard_error,
        "clusters": ends.clusters,
        **({"note": ends.note} if ends.note else {}),
    }


def _share(share: Share) -> Json:
    return {
        "share": share.value,
        "low": share.low,
        "high": share.high,
        "bca_low": share.bca_low,
        "bca_high": share.bca_high,
        "standard_error": share.standard_error,
    }


def _context_figures(rows: list[Json], spec: str, statistic: str) -> Json:
    def one(kind: str, scope: str) -> Json:
        by_statistic = {
            row["statistic"]: row
            for row in rows
            if (row["scope_kind"], row["scope"], row["spec"]) == (kind, scope, spec)
        }
        row = by_statistic[statistic]
        values: Json = {
            statistic: row["value"],
            "n": row["n"],
            "excluded": row["excluded"],
            **{name: row[name] for name in _ENDS},
        }
        for other in ("window_mean", "count"):
            if other in by_statistic:
                values[other] = by_statistic[other]["value"]
        absent = {row["statistic"]: row["reason"] for row in by_statistic.values() if row["value"] is None}
        return values | ({"absent": absent} if absent else {})

    groups = dict.fromkeys(row["scope"] for row in rows if row["scope_kind"] == "group")
    return one("all", "all") | {"groups": {name: one("group", name) for name in groups}}


def _pair(low: float | None, high: float | None) -> list[float] | None:
    return None if low is None or high is None else [low, high]
