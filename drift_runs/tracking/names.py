"""Metric names: the one mapper from a figure to the name that a tracking store shows.

Grammar, where ``[]`` is optional::

    <spec>/<view>[/<scope kind>/<scope>][/worst_range]/<statistic>[.low|.high|.excluded|.n]

    kl.full/all/mean
    kl.full/without_outliers/panel/P-A/p95
    kl.topk-shared.20/all/mean.low
    flip/all/worst_range/rate

View ``all`` is with outliers, ``without_outliers`` and ``only_outliers`` speak for themselves. Series over history and
depth drop the scope's name and use its first token as the step: ``kl.full/all/history/mean``.

MLflow takes a name as a path in places, refuses some and lets others collide on file systems that fold case. So a name
is of ``[A-Za-z0-9_.-/ ]`` only, is its own normal form, has at most 250 characters, and two names of one batch differ
in more than case.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from drift_runs.errors import StoreError
from drift_runs.measure.scopes import SCOPE_KINDS
from drift_runs.tracking import chosen_metrics

MAX_NAME_CHARACTERS = 250

VIEWS = {"with": "all", "without": "without_outliers", "only": "only_outliers"}

_COMPONENT = re.compile(r"[A-Za-z0-9_.-](?:[A-Za-z0-9_. -]*[A-Za-z0-9_.-])?")
_WORST_RANGE = "worst_range."
_COUNTED = (
    ("answer.", "", "answers"),
    ("branches", "existing", "flips"),
    ("branches", "", "roots"),
    ("rollout.early_stop", "", "rollouts"),
    ("rollout.loop", "", "rollouts"),
    ("rollout.prefix", "tokens", "tokens"),
    ("rollout.", "", "prompts"),
    ("sampled.", "", "pairs of rollouts"),
    ("task.", "", "tasks"),
    ("", "windows_above", "windows"),
    ("", "", "positions"),
)
"""What a figure is over: the noun of the first row whose beginning of the spec and statistic (empty: any) fit."""

_FIRST_INTEGER = re.compile(r"\d+")


class SeriesPoint(NamedTuple):
    """One metric value at a step."""

    name: str
    step: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one run logs as metrics."""

    metrics: Mapping[str, float]
    """Summary metrics, with the counts ``withheld`` and ``nonfinite`` of what was left out."""
    series: tuple[SeriesPoint, ...]
    """Values by history and by depth, the step being the first token of the bucket."""
    display: Mapping[str, str]
    """Metric name to what a person reads: ``kl.topk-shared@20 mean, all positions``."""


def metric_name(
    *, spec: str, outliers: str, scope_kind: str, scope: str, statistic: str, part: str = "", series: bool = False
) -> str:
    """Name of one figure; ``part`` is ``low``, ``high``, ``excluded`` or ``n`` for what stands beside the value.

    Raises ``StoreError`` for anything that has no safe name.
    """
    if outliers not in VIEWS:
        raise StoreError(f"no view is called {outliers!r}", where=f"figure {spec} {statistic}", expected=_of(VIEWS))
    if scope_kind not in SCOPE_KINDS:
        raise StoreError(
            f"no scope is called {scope_kind!r}", where=f"figure {spec} {statistic}", expected=_of(SCOPE_KINDS)
        )
    parts = [_component(spec, "spec"), VIEWS[outliers]]
    if series:
        parts.append(scope_kind)
    elif scope_kind != "all":
        parts += [scope_kind, _component(scope, f"scope of kind {scope_kind}")]
    if statistic.startswith(_WORST_RANGE):
        parts += ["worst_range", _component(statistic.removeprefix(_WORST_RANGE), "statistic")]
    else:
        parts.append(_component(statistic, "statistic"))
    return checked_name("/".join(parts) + (f".{part}" if part else ""))


def name_of(figure: Mapping[str, Any], part: str = "") -> str:
    """Name of one row of ``schema.FIGURES``."""
    return metric_name(
        spec=figure["spec"],
        outliers=figure["outliers"],
        scope_kind=figure["scope_kind"],
        scope=figure["scope"],
        statistic=figure["statistic"],
        part=part,
    )


def checked_name(name: str) -> str:
    """The name itself, or ``StoreError`` when a tracking store would refuse, cut or reinterpret it."""
    for component in name.split("/"):
        if _COMPONENT.fullmatch(component) is None or component in (".", ".."):
            raise StoreError(
                f"metric name {name!r} has the part {component!r}",
                expected="letters, digits, '_', '-', '.', inner spaces; no empty part and no '..'",
                todo="rename the panel, range or window that it comes from",
            )
    if len(name) > MAX_NAME_CHARACTERS:
        raise StoreError(
            f"metric name of {len(name)} characters: {name[:60]}…", expected=f"at most {MAX_NAME_CHARACTERS}"
        )
    return name


def checked_batch(names: Iterable[str]) -> list[str]:
    """The names, or ``StoreError`` when two of them are equal, or equal but for case."""
    seen: dict[str, str] = {}
    for name in names:
        folded = checked_name(name).casefold()
        if folded in seen:
            raise StoreError(
                f"two metrics of one run are called {seen[folded]!r} and {name!r}",
                expected="names that differ in more than case",
                todo="rename one of the panels, ranges or windows",
            )
        seen[folded] = name
    return list(seen.values())


def select_metrics(figures: pa.Table) -> dict[str, float]:
    """About 60 to 90 summary metrics of one run; see :func:`select`."""
    return dict(select(figures).metrics)


def select(figures: pa.Table) -> Selection:
    """Choose what one run logs: the headline statistics for all positions, without outliers, and for each panel.

    ``figures`` has the schema ``FIGURES`` and rows of one arm. A value that is withheld, null, NaN or infinite is never
    among the metrics: ``withheld`` and ``nonfinite`` count those that would have been.
    """
    rows = figures.to_pylist()
    arms = {row["arm"] for row in rows}
    if len(arms) > 1:
        raise StoreError(f"figures of {len(arms)} arms in one run", expected="one arm a run", where=_of(sorted(arms)))
    headline = chosen_metrics.headline_of(figures)
    named: list[tuple[str, float, str]] = []
    points: list[SeriesPoint] = []
    withheld = nonfinite = 0
    for row in rows:
        token = chosen_metrics.token(row["spec"], row["statistic"], headline)
        is_series = chosen_metrics.is_series(row["scope_kind"], token)
        if not (is_series or chosen_metrics.is_metric(row["scope_kind"], row["outliers"], token)):
            continue
        if row["state"] == "withheld" or row["value"] is None:
            withheld += 1
        elif not math.isfinite(row["value"]):
            nonfinite += 1
        elif is_series:
            points += _points(row)
        else:
            named += _with_what_stands_beside(row, token)
    checked_batch([*(name for name, _, _ in named), *sorted({point.name for point in points}), "withheld", "nonfinite"])
    if len({(point.name, point.step) for point in points}) != len(points):
        raise StoreError("two buckets of one series start at the same token", expected="buckets that do not overlap")
    metrics = {name: value for name, value, _ in named}
    metrics["withheld"] = float(withheld)
    metrics["nonfinite"] = float(nonfinite)
    return Selection(metrics=metrics, series=tuple(points), display={name: shown for name, _, shown in named})


def _with_what_stands_beside(row: Mapping[str, Any], token: str) -> list[tuple[str, float, str]]:
    """The value's own metric, and for the leading figures of a run the interval's ends and the counts."""
    shown = _display(row)
    found = [(name_of(row), float(row["value"]), shown)]
    if chosen_metrics.has_interval(row["scope_kind"], row["outliers"], token):
        for end in ("low", "high"):
            value = row[end]
            if value is not None and math.isfinite(value):
                found.append((name_of(row, end), float(value), f"{shown}, {end} end of {row['interval']}"))
        found.append((name_of(row, "n"), float(row["n"]), f"{shown}, {_counted(row)} used"))
        found.append((name_of(row, "excluded"), float(row["excluded"]), f"{shown}, {_counted(row)} left out"))
    return found


def _points(row: Mapping[str, Any]) -> list[SeriesPoint]:
    first = _FIRST_INTEGER.search(row["scope"].replace(",", ""))  # labels group digits: "1,101+"
    if first is None:
        return []
    name = metric_name(
        spec=row["spec"],
        outliers=row["outliers"],
        scope_kind=row["scope_kind"],
        scope="",
        statistic=row["statistic"],
        series=True,
    )
    return [SeriesPoint(name, int(first.group()), float(row["value"]))]


def _display(row: Mapping[str, Any]) -> str:
    where = f"all {_counted(row)}" if row["scope_kind"] == "all" else f"{row['scope_kind']} {row['scope']}"
    view = {"with": "", "without": ", without outliers", "only": ", outliers only"}[row["outliers"]]
    return f"{row['spec']} {row['statistic']}, {where}{view}"


def _counted(row: Mapping[str, Any]) -> str:
    return next(
        noun
        for beginning, statistic, noun in _COUNTED
        if row["spec"].startswith(beginning) and statistic in ("", row["statistic"])
    )


def _component(text: str, what: str) -> str:
    """A part of a name: K is written ``.20`` for ``@20``, an open end ``-up`` for ``+``."""
    mapped = text.replace("@", ".")
    if mapped.endswith("+"):
        mapped = mapped[:-1] + "-up"
    return checked_component(mapped, what)


def checked_component(text: str, what: str) -> str:
    """The text itself, or ``StoreError`` when it cannot be one part of a metric's or an artifact's name."""
    if _COMPONENT.fullmatch(text) is None or text in (".", ".."):
        raise StoreError(
            f"{text!r} cannot be part of a name",
            where=what,
            expected="letters, digits, '_', '-', '.' and inner spaces",
            todo="rename it in the protocol",
        )
    return text


def _of(words: Iterable[str]) -> str:
    return ", ".join(words)
