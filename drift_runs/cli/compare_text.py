"""What ``drift compare`` prints for a reader: the document that ``--json`` prints, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drift_runs.errors import one_line

QUANTILES = ("median", "p90", "p95", "p99", "p99.9")
GROUPS_SHOWN = 12
STEPS_SHOWN = 8


def text(document: dict[str, Any], kind: str) -> str:
    """The whole page. What a file says goes through :func:`one_line`: it cannot steer the terminal."""
    return "\n".join(_lines(document, kind))


def _lines(document: dict[str, Any], kind: str) -> Iterator[str]:
    names = ("reference", "candidate") if kind == "rows" else ("a", "b")
    for name, side in zip(names, ("a", "b"), strict=True):
        file = document[side]
        yield f"{name:<9}  {one_line(file['path'])} (sha256 {file['sha256'][:12]})"
    for difference in document["comparability"]["differences"]:
        yield f"differs    {one_line(difference)}"
    for reason in document["comparability"]["reasons"]:
        yield f"refused    {one_line(reason)}"
    if document["figures"]:
        yield ""
        yield from {"rows": _one_comparison, "rollouts": _rollouts}.get(kind, _two_candidates)(document["figures"])
    yield ""
    if kind in ("rows", "comparison") and document["figures"]:
        yield "~ 10 to 99 values beyond the quantile; (n) fewer than 10: n values, the quantile is hardly known."
    few = [note for values in document["figures"].values() if (note := _small_note(values))]
    for note in [*few[:1], *document["notes"]]:
        yield f"Note: {one_line(note)}"


def _one_comparison(figures: dict[str, Any]) -> Iterator[str]:
    yield from _columns(
        ["", "mean [95 %]", *QUANTILES, "max", "n"],
        [_divergence_row(spec, values) for spec, values in figures.items() if "mean" in values and "max" in values],
    )
    for spec, values in figures.items():
        if "reason" in values:
            yield f"{spec}: {values['reason']}"
        if "shared_support_mean" in values and spec.startswith("kl.topk-shared"):
            yield (
                f"{spec}: {values['shared_support_mean']:.3g} shared tokens on average, {values['shared_support_min']} "
                f"at least; {number(values['reference_mass_outside_mean'])} of the reference's mass outside them, "
                f"{number(values['reference_mass_dropped_mean'])} of it in its best entries; "
                f"positions without a value: {values['support_collapse']}"
            )
        if "identical" in values:
            yield f"{spec}: {values['identical']:,} of {values['n']:,} rows identical"
    rates = [[spec, *_rate_cells(values)] for spec, values in figures.items() if "rate" in values]
    if rates:
        yield ""
        yield from _columns(["", "rate [95 %]", "count", "n"], rates)
    means = [
        [spec, _interval(values), _n(values)]
        for spec, values in figures.items()
        if "mean" in values and "max" not in values
    ]
    if means:
        yield ""
        yield from _columns(["", "mean [95 %]", "n"], means)
    yield from _groups(figures)


def _two_candidates(figures: dict[str, Any]) -> Iterator[str]:
    rows = []
    for spec, values in figures.items():
        difference = values.get("mean_difference", values.get("rate_difference"))
        if difference is None:
            continue
        lower = (values.get("a_lower"), values.get("b_lower"))
        only = (values.get("a_only"), values.get("b_only"))
        rows.append(
            [
                spec,
                *(_interval(side) if (side := values.get(name)) else "-" for name in ("a", "b")),
                number(difference) + _ends(values),
                f"{lower[0]:,} / {lower[1]:,}" if None not in lower else f"{only[0]:,} / {only[1]:,} flip alone",
                number(values.get("p_sign_flip")),
                _n(values),
            ]
        )
    if rows:
        yield from _columns(["", "a [95 %]", "b [95 %]", "a minus b [95 %]", "a lower / b lower", "p", "n"], rows)
        yield "p: cluster sign-flip permutation, two-sided; it decides whether a and b differ."
    for spec, values in figures.items():
        if (p := values.get("p_mcnemar_positions_independent")) is not None:
            yield f"{spec}: McNemar's test, which takes positions as independent: p {number(p)}"
    for spec, values in figures.items():
        for name in ("a", "b"):
            side = values.get(name) or {}
            if "p95" in side:
                yield f"{spec} of {name}: " + ", ".join(f"{key} {_quantile(side, key)}" for key in (*QUANTILES, "max"))
            for reason in dict.fromkeys((side.get("absent") or {}).values()):
                yield f"{spec} of {name}: no quantile: {reason}"
    yield from _groups_of_two(figures)


def _rollouts(figures: dict[str, Any]) -> Iterator[str]:
    exact, prefix, agree = (figures[f"rollout.{name}"] for name in ("exact", "prefix", "agree"))
    yield from _columns(
        ["", "share [95 %]", "count", "of"],
        [
            ["rollout.exact", f"{exact['share']:.4f}{_ends(exact)}", f"{exact['count']:,}", f"{exact['n']:,} prompts"],
            [
                "rollout.prefix",
                f"{prefix['share']:.4f}{_ends(prefix)}",
                f"{prefix['tokens']:,}",
                f"{prefix['of']:,} tokens",
            ],
            ["rollout.agree", f"{agree['share']:.4f}{_ends(agree)}", f"{agree['tokens']:,}", f"{agree['of']:,} tokens"],
        ],
    )
    stops, loops = figures["rollout.early_stop"], figures["rollout.loop"]
    shown = [
        [name, *(f"{values[key]:,}" for key in ("a", "b", "differ")), f"{values['n']:,} prompts"]
        for name, values in (("rollout.early_stop", stops), ("rollout.loop", loops))
        if "reason" not in values
    ]
    yield ""
    yield from _columns(["", "a", "b", "not alike", "of"], shown)
    if "reason" in stops:
        yield f"rollout.early_stop: not counted: {stops['reason']}"
    yield "rollout.loop: rollouts that repeat themselves before their first end token."
    yield ""
    first = figures["rollout.first"]
    steps = list(first["counts"].items())
    shown = ", ".join(f"{step} ({count})" for step, count in steps[:STEPS_SHOWN])
    more = f" and {len(steps) - STEPS_SHOWN} later steps" if len(steps) > STEPS_SHOWN else ""
    yield f"rollout.first: first difference at step {shown}{more}" if steps else "rollout.first: no difference"
    gap = figures["rollout.prefix.dlogprob"]
    shown = number(gap["mean_abs"])
    yield f"mean |difference| of the log-probabilities of the equal prefixes: {shown} nats, n {gap['n']:,}"


def _groups(figures: dict[str, Any]) -> Iterator[str]:
    """The groups of the first divergence that has a value, with the flips beside it."""
    spec = next((name for name, values in figures.items() if values.get("groups") and "max" in values), None)
    if spec is None:
        return
    flips = (figures.get("flip") or {}).get("groups", {})
    rows = [
        [one_line(name), _interval(values), _interval(flips[name]) if name in flips else "-", f"{values['n']:,}"]
        for name, values in list(figures[spec]["groups"].items())[:GROUPS_SHOWN]
    ]
    yield ""
    yield from _columns(["group", f"{spec} [95 %]", "flip [95 %]", "n"], rows)


def _groups_of_two(figures: dict[str, Any]) -> Iterator[str]:
    """The groups of the first figure that both sides have."""
    for spec, values in figures.items():
        a, b = ((values.get(side) or {}).get("groups", {}) for side in ("a", "b"))
        names = [name for name in a if name in b][:GROUPS_SHOWN]
        if names:
            yield ""
            yield from _columns(
                ["group", f"{spec} of a [95 %]", f"{spec} of b [95 %]", "n of a"],
                [[one_line(name), _interval(a[name]), _interval(b[name]), _n(a[name])] for name in names],
            )
            return


def _divergence_row(spec: str, values: dict[str, Any]) -> list[str]:
    return [spec, _interval(values), *(_quantile(values, name) for name in (*QUANTILES, "max")), _n(values)]


def _quantile(values: dict[str, Any], name: str) -> str:
    shown = number(values.get(name))
    match values.get("states", {}).get(name):
        case "indicative":
            return f"~{shown}"
        case "withheld":
            return f"{shown} ({values['beyond'][name]})"
    return shown


def _rate_cells(values: dict[str, Any]) -> list[str]:
    return [_interval(values), f"{values['count']:,}", _n(values)]


def _interval(values: dict[str, Any]) -> str:
    """A mean or rate with its interval."""
    if "rate" not in values:
        return number(values.get("mean")) + _ends(values)
    if values["rate"] is None:
        return "-"
    ends = _both(values)
    return f"{values['rate']:.2%}" + (f" [{ends[0] * 100:.2f}, {ends[1] * 100:.2f}]" if ends else "")


def _ends(values: dict[str, Any]) -> str:
    ends = _both(values)
    return f" [{number(ends[0])}, {number(ends[1])}]" if ends else ""


def _both(values: dict[str, Any]) -> tuple[float, float] | None:
    """The ends of a figure (low, high) or of a difference (ci95)."""
    low, high = values.get("ci95") or (values.get("low"), values.get("high"))
    return None if low is None or high is None else (low, high)


def _n(values: dict[str, Any]) -> str:
    left_out = f" ({values['excluded']:,} left out)" if values.get("excluded") else ""
    return f"{values['n']:,}{left_out}"


def _small_note(values: dict[str, Any]) -> str:
    """What to mind with few clusters, of one comparison or of a difference."""
    return values.get("note") or ""


def number(value: float | None) -> str:
    """Four significant digits."""
    return "-" if value is None else f"{value:.4g}"


def _columns(header: list[str], rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    for row in [header, *rows]:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
