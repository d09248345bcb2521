"""The table of arms on stdout, a row as soon as it is known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.campaign import Outcome
from drift_runs.errors import one_line
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Protocol


class Address(NamedTuple):
    """Which figure of a ``FIGURES`` table."""

    spec: str
    statistic: str
    outliers: str = "with"
    scope_kind: str = "all"
    scope: str = "all"


FLIPS = Address("flip", "rate")
STRONG = Address("strong_overturn", "count")
COVERAGE = Address("coverage", "share")
EXACT = Address("answer.exact", "count")

_COLUMNS = (
    ("arm", 12),
    ("flip rate [95 %]", 22),
    ("{divergence} mean, nats [95 %]", 31),
    ("without outl.", 13),
    ("p95", 9),
    ("worst range (p95)", 31),
    ("strong", 6),
    ("exact answers", 13),
    ("against the floor", 18),
)
_ANSWERS = next(at for at, (name, _) in enumerate(_COLUMNS) if name == "exact answers")


def index(figures: pa.Table) -> Mapping[Address, dict[str, Any]]:
    """Figures by address."""
    return {
        Address(row["spec"], row["statistic"], row["outliers"], row["scope_kind"], row["scope"]): row
        for row in figures.to_pylist()
    }


def headline_of(figures: pa.Table) -> str:
    """Spec id of the divergence that the table shows: the one that has a mean of window means."""
    rows = figures.filter(pc.equal(figures["statistic"], "window_mean"))
    return rows["spec"][0].as_py() if rows.num_rows else "kl.full"


def nats(value: float | None) -> str:
    """Three significant digits; tiny values in scientific form; what 16-bit storage leaves below zero as 0."""
    if value is None:
        return "-"
    if value <= 0 and value > -1e-5:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def header(divergence: str = "kl.full", *, answers: bool = False) -> str:
    """The table's head; ``divergence``: base of the protocol's headline; ``answers``: it expects answers."""
    line = _line([name.format(divergence=divergence) for name, _ in _COLUMNS], answers)
    return f"{line}\n{'-' * len(line)}"


def _line(cells: list[str], answers: bool) -> str:
    """Cells in their columns; the one of exact answers is shown only where some are expected."""
    shown = [
        f"{cell:<{width}}"
        for at, (cell, (_, width)) in enumerate(zip(cells, _COLUMNS, strict=True))
        if answers or at != _ANSWERS
    ]
    return "  ".join(shown).rstrip()


def row(outcome: Outcome, *, answers: bool = False) -> str:
    """One arm's row; a failed arm says why."""
    name = outcome.execution.name
    if outcome.error is not None or outcome.figures is None:
        return f"{name:<12}  failed: {outcome.error.line() if outcome.error else 'no figures'}"
    if not outcome.execution.scored:
        return no_rows(name)
    last = ""
    if outcome.execution.kind == "floor" and outcome.determinism is not None:
        last = f"rows same {outcome.determinism.rows_identical}/{outcome.determinism.rows}"
    mark = " (follow-up)" if outcome.execution.kind == "follow-up" else ""
    return figures_row(name, outcome.figures, last=last, mark=mark, answers=answers)


def no_rows(name: str) -> str:
    """The row of an arm whose engine gives none."""
    return f"{name:<12}  no rows: its engine writes and scores nothing, see below"


def figures_row(name: str, figures: pa.Table, *, last: str = "", mark: str = "", answers: bool = False) -> str:
    """A row from figures alone; ``last`` replaces the verdict, ``mark`` follows it; ``answers`` as in the head."""
    found = index(figures)
    spec = headline_of(figures)
    mean = found.get(Address(spec, "mean"))
    verdict = mean["verdict"] if mean and mean["verdict"] else "no verdict"
    if mean and mean["borrowed"]:
        verdict = f"no verdict: floor {nats(mean['floor_value'])} borrowed"
    cells = [
        name,
        _rate(found.get(FLIPS)),
        _with_interval(mean),
        nats(_value(found.get(Address(spec, "mean", "without")))),
        _guarded(found.get(Address(spec, "p95"))),
        _worst(found.get(Address(spec, "worst_range.p95"))),
        _count(found.get(STRONG)),
        _exact(found.get(EXACT)),
        last or verdict + mark,
    ]
    return _line(cells, answers)


def legend(outcomes: list[Outcome], protocol: Protocol) -> str:
    """What the table's readers must know: n, what is pooled, marks, withheld values."""
    lines = []
    for outcome in outcomes:
        if outcome.figures is not None and outcome.execution.kind != "floor":
            found = index(outcome.figures)
            here = Address(headline_of(outcome.figures), "mean")
            mean, without = found.get(here), found.get(here._replace(outliers="without"))
            if mean is not None:
                text = f"n = {mean['n']:,} scored positions in {mean['clusters']} clusters"
                if without is not None:
                    text += f"; {without['n']:,} without the declared outlier windows"
                lines.append(f"{text}. {mean['reason']}".rstrip() + ("." if mean["reason"] else ""))
                base, _, entries = here.spec.partition("@")
                if entries and Address("kl.full", "mean") not in found:
                    lines.append(
                        f"{base} is {here.spec}: of the best {entries} entries of a row. Full rows were not compared, "
                        "so kl.full and js.full are not known."
                    )
                if (covered := found.get(COVERAGE)) is not None:
                    lines.append(f"Coverage {covered['value']:.3g}: {covered['reason']}.")
                lines += _pooled(found, here, protocol)
                break
    lines.append(
        "Floors are the reference against itself. ~ indicative: 10 to 99 values beyond the quantile; - withheld."
    )
    lines.append(f"strong: flips where the reference gave its token p1 >= {protocol.bands.strong_from:g}.")
    lines += answers_lines(outcome.figures for outcome in outcomes if outcome.execution.kind != "floor")
    lines.append("All figures, by panel, range and history: drift dashboard.")
    return "\n".join(lines)


def answers_lines(figures: Iterable[pa.Table | None]) -> list[str]:
    """What the column of exact answers counts, and the reference's own number from the arm that has most of them
    judged; no line without one."""
    counts = [
        found
        for table in figures
        if table is not None
        if (found := index(table).get(EXACT._replace(statistic="reference_count"))) is not None
    ]
    known = [found for found in counts if _value(found) is not None]
    if not known:
        return []
    most = max(known, key=lambda found: found["n"])
    unjudged = f"; {most['excluded']} more not judged" if most["excluded"] else ""
    return [
        "exact answers: of the expected ones that were judged, those that the arm would write to the letter; "
        f"the reference {_exact(most)}{unjudged}."
    ]


def notes(loaded: LoadedProtocol) -> str:
    """What every report says: the protocol's own notes, and that a draft was not frozen."""
    return protocol_notes(loaded.protocol, draft=loaded.draft)


def protocol_notes(protocol: Protocol, *, draft: bool) -> str:
    """The same of a protocol without a file."""
    texts = list(protocol.notes)
    reference = protocol.reference.name
    if not any(floor.arm == reference for floor in protocol.floors):
        texts.insert(0, f"The reference {reference} has no floor: nothing says how far it lies from itself.")
    if draft:
        texts.insert(0, "This is a draft: the protocol was not frozen before the results.")
    return "\n".join(f"Note: {one_line(text)}" for text in texts)


def _pooled(found: Mapping[Address, dict[str, Any]], here: Address, protocol: Protocol) -> list[str]:
    """Which panels the rows pool, with their n; nothing for a single panel."""
    means = {panel: found.get(here._replace(scope_kind="panel", scope=panel.name)) for panel in protocol.panels}
    parts = [
        f"{panel.name} ({one_line(panel.title)}, n {mean['n']:,})" for panel, mean in means.items() if mean is not None
    ]
    return [f"The rows pool the panels {' and '.join(parts)}."] if len(parts) > 1 else []


def _value(figure: dict[str, Any] | None) -> float | None:
    return None if figure is None or figure["state"] == "withheld" else figure["value"]


def _rate(figure: dict[str, Any] | None) -> str:
    value = _value(figure)
    if figure is None or value is None:
        return "-"
    if figure["low"] is None:
        return f"{value:.2%}"
    return f"{value:.2%} [{figure['low'] * 100:.2f}, {figure['high'] * 100:.2f}]"


def _with_interval(figure: dict[str, Any] | None) -> str:
    value = _value(figure)
    if figure is None or value is None:
        return "-"
    if figure["low"] is None:
        return nats(value)
    return f"{nats(value)} [{nats(figure['low'])}, {nats(figure['high'])}]"


def _guarded(figure: dict[str, Any] | None) -> str:
    value = _value(figure)
    mark = "~" if figure is not None and figure["state"] == "indicative" else ""
    return mark + nats(value)


def _worst(figure: dict[str, Any] | None) -> str:
    if figure is None or _value(figure) is None:
        return "-"
    if figure["value"] == 0:
        return "no range is above 0"  # the first of equals would be named for nothing
    return f"{figure['named']} {_guarded(figure)}"


def _exact(figure: dict[str, Any] | None) -> str:
    value = _value(figure)
    return "-" if figure is None or value is None else f"{value:.0f}/{figure['n']}"


def _count(figure: dict[str, Any] | None) -> str:
    value = _value(figure)
    return "-" if value is None else f"{value:.0f}"
