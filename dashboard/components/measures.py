"""Any figure of the long table as a row: value, every interval that was computed, n, floor, and what to mind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dashboard.components.cells import borrowed_chip, table, verdict_chip
from dashboard.components.markup import Html, tag
from dashboard.figures import is_withheld, write_interval, write_number, write_value
from drift_runs.generate.branch_figures import LEVELS
from drift_runs.generate.root_rows import SHARES
from drift_runs.measure.figures import Figure

_COUNTS = frozenset(
    {"count", "windows_above", "exactly_zero", "excluded", "infinite", "reference_count", "lost", "gained"}
)
_SHARES = frozenset({"rate", "share", "first_share", "tail_share"})
_OF_ROOTS = frozenset(SHARES)
_LEVELS = frozenset(LEVELS)
_MASSES = ("reference_mass_outside", "reference_mass_dropped", "padding_mass")
_NUMBERS = ("shared_support", "rank.", "dp")
LAUNCHES = ".launches_"
LOWER = "_lower"
"""End of the name of a quantile by the lower rule."""


class Measure(NamedTuple):
    """A figure by where it is in the long table, and the words that a row begins with."""

    words: str
    spec: str
    """Spec id, or its base: K is whatever the rows have."""
    statistic: str


def unit_of(spec: str, statistic: str) -> str:
    """The unit that a value of this spec and statistic is written in."""
    statistic = statistic.partition(LAUNCHES)[0].removeprefix("worst_range.")
    if spec.startswith("branches"):
        return "tokens" if statistic in _LEVELS else "share" if statistic in _OF_ROOTS else "count"
    if spec == "task.passed" and statistic not in _COUNTS:
        return {"unknown": "count", "difference": "share", "rate": "share"}.get(statistic, "number")
    if statistic in _COUNTS or statistic.endswith(".count"):
        return "count"
    if statistic in _SHARES or spec.startswith(_MASSES):
        return "share"
    if spec.startswith(("rollout.", "sampled.")) and "dlogprob" not in spec:
        return "tokens" if "token" in statistic else "number"
    return "number" if spec.startswith(_NUMBERS) else "nats"


def same_figure(figure: Figure, measure: Measure) -> bool:
    """Whether a figure is the one that is asked for, whatever its K."""
    return figure.statistic == measure.statistic and without_k(figure.spec) == without_k(measure.spec)


def without_k(spec: str) -> str:
    """``entropy.topk.reference`` of ``entropy.topk@20.reference``."""
    before, at, after = spec.partition("@")
    return before + after.lstrip("0123456789") if at else spec


def measure_table(
    figures: Iterable[tuple[str, Figure]], *, label: str, sets: Sequence[str], caption: str = "", floor: bool = True
) -> Html:
    """Rows of (words, figure). With two sets of windows every row says which one it is of.

    ``floor``: whether there is anything to show beside the figures.
    """
    rows = list(figures)
    floor = floor and any(figure.floor_value is not None for _, figure in rows)
    head = [tag("th", "measure", scope="col")]
    head += [tag("th", "outliers", scope="col")] if len(sets) > 1 else []
    head += [tag("th", "value", scope="col"), tag("th", "intervals", scope="col")]
    head += [tag("th", "n", scope="col", cls="dr-right")]
    head += [tag("th", "floor", scope="col")] if floor else []
    head += [tag("th", "state", scope="col")]
    body = [_row(words, figure, several=len(sets) > 1, floor=floor) for words, figure in rows]
    return table(caption, head, body, label=label)


def _row(words: str, figure: Figure, *, several: bool, floor: bool) -> Html:
    unit = unit_of(figure.spec, figure.statistic)
    spec = tag("span", f"{figure.spec} {figure.statistic}", cls="dr-line dr-spec")
    cells = [tag("th", words, spec, scope="row")]
    cells += [tag("td", figure.outliers)] if several else []
    cells += [tag("td", value_lines(figure, unit)), tag("td", interval_lines(figure, unit))]
    cells += [tag("td", n_lines(figure), cls="dr-num dr-right")]
    cells += [tag("td", _floor_lines(figure, unit))] if floor else []
    cells += [tag("td", state_lines(figure))]
    return tag(
        "tr",
        cells,
        data_spec=figure.spec,
        data_statistic=figure.statistic,
        data_outliers=figure.outliers,
        data_scope=figure.scope,
    )


def value_lines(figure: Figure, unit: str) -> list[Html | None]:
    """The value, or *withheld*; the range that a worst-range figure names."""
    if is_withheld(figure):
        return [tag("span", "withheld", cls="dr-grey")]
    grey = " dr-grey" if figure.state == "indicative" else ""
    if figure.statistic == "windows_above":
        return [tag("span", f"{figure.value:,.0f} of {figure.n:,}", cls="dr-value dr-num"), _line("windows")]
    named = tag("span", figure.named, cls="dr-line dr-small dr-wrap") if figure.named else None
    suffix = {"nats": " nats", "tokens": " tokens"}.get(unit, "")
    small = tag("span", suffix, cls="dr-small") if suffix else None
    return [tag("span", write_value(figure, unit), cls="dr-value dr-num" + grey), small, named]


def interval_lines(figure: Figure, unit: str) -> list[Html | None]:
    """The percentile interval, and beside it BCa, the clustered standard error and the t interval where they exist."""
    lines = [_line(write_interval(figure, unit), figure.interval)]
    beside = []
    if figure.bca_low is not None and figure.bca_high is not None:
        beside.append(f"BCa {_ends(figure.bca_low, figure.bca_high, unit)}")
    if figure.t_low is not None and figure.t_high is not None:
        beside.append(f"t {_ends(figure.t_low, figure.t_high, unit)}")
    if figure.standard_error is not None:
        beside.append(f"SE {write_number(figure.standard_error, unit, digits=2)}")
    words = "BCa: bias-corrected and accelerated; t: Student's t on the log of cluster means; SE: clustered."
    lines += [tag("span", part, cls="dr-line dr-small dr-num", title=words) for part in beside]
    if not any(lines):
        return [tag("span", "no interval", cls="dr-small")]
    return lines


def _ends(low: float, high: float, unit: str) -> str:
    ends = (write_number(end, unit, low=low, high=high, bare=True) for end in (low, high))
    return f"[{', '.join(ends)}]"


def n_lines(figure: Figure) -> list[object]:
    """Positions used, and under it what was left out and of how many clusters."""
    if figure.statistic == "windows_above":
        return []
    lines: list[object] = [f"{figure.n:,}"]
    if figure.excluded:
        lines.append(tag("span", f"{figure.excluded:,} left out", cls="dr-line dr-small"))
    if figure.clusters:
        lines.append(tag("span", f"{figure.clusters:,} clusters", cls="dr-line dr-small"))
    return lines


def _floor_lines(figure: Figure, unit: str) -> list[Html | None]:
    if figure.floor_value is None:
        return []
    shown = write_number(figure.floor_value, unit, digits=2)
    return [tag("span", shown, cls="dr-num"), _line(figure.floor), borrowed_chip(figure)]


def state_lines(figure: Figure) -> list[Html | None]:
    """Verdict, state, and the reason or note."""
    beyond = f", {figure.beyond:,} beyond" if figure.state == "indicative" and figure.beyond is not None else ""
    state = tag("span", f"{figure.state}{beyond}", cls="dr-line")
    return [verdict_chip(figure), state, _line(figure.reason, wrap=True)]


def _line(words: str, title: str = "", *, wrap: bool = False) -> Html | None:
    if not words:
        return None
    return tag("span", words, cls="dr-line dr-small " + ("dr-wrap" if wrap else "dr-num"), title=title or None)
