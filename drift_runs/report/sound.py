"""Whether it is sound: determinism, what was withheld, what a rule proposes, and what people decided."""

from __future__ import annotations

from collections import defaultdict

from drift_runs.measure.figures import Figure
from drift_runs.report.content import Content
from drift_runs.report.decided import decision_rows, decisions_sentence, when
from drift_runs.report.figures import is_withheld
from drift_runs.report.grid import Cell, Grid, Row, Section, count, words
from drift_runs.report.rows import figure_fields
from drift_runs.tracking.decisions import Decision

DECIDED_MARKS = {"accepted": "within", "rejected": "above", "needs more": "inconclusive"}


def determinism(content: Content) -> Section:
    """Rows and windows that agree to the byte, for every arm that recorded it, floors first."""
    several = len(content.sets) > 1
    rows, fields = [], []
    refuted = []
    for arm in content.arms("floor", "launch", "candidate", "follow-up"):
        for outliers in content.sets:
            found = content.determinism(arm.arm, outliers)
            if found.rows == 0 and found.windows == 0:
                continue
            wrong = arm.rows_expected == "identical" and not found.identical
            if wrong and arm.arm not in refuted:
                refuted.append(arm.arm)
            largest = found.max_abs_dlogit if found.max_abs_dlogit is not None else found.max_abs_dlogprob
            of = "of a raw logit" if found.max_abs_dlogit is not None else "of a log-probability"
            first = f"{found.first_difference[0]}, {found.first_difference[1]}" if found.first_difference else "none"
            rows.append(
                Row(
                    cells=(
                        words(arm.arm, f"{arm.role}{', ' + arm.floor_kind if arm.floor_kind else ''}")
                        if outliers == content.sets[0]
                        else words(""),
                        *([words(outliers)] if several else []),
                        words(arm.rows_expected or "-", grey=not arm.rows_expected),
                        Cell(
                            text=f"{found.rows_identical:,} of {found.rows:,}",
                            small=tuple(
                                line
                                for line in (
                                    f"{found.rows_unhashable:,} unhashable" if found.rows_unhashable else "",
                                    "determinism refuted" if wrong else "",
                                )
                                if line
                            ),
                            figure="rows_identical",
                            number=True,
                            mark="above" if wrong else "",
                        ),
                        Cell(
                            text=f"{found.windows_identical:,} of {found.windows:,}",
                            figure="windows_identical",
                            number=True,
                        ),
                        Cell(text="-", number=True)
                        if largest is None
                        else Cell(text=f"{largest + 0.0:.3g}", small=(of,), number=True),
                        words(first),
                    ),
                    arm=arm.arm,
                    outliers=outliers,
                )
            )
            fields.append(
                {
                    "arm": arm.arm,
                    "role": arm.role,
                    "outliers": outliers,
                    "rows_expected": arm.rows_expected,
                    "rows": found.rows,
                    "rows_identical": found.rows_identical,
                    "rows_unhashable": found.rows_unhashable,
                    "windows": found.windows,
                    "windows_identical": found.windows_identical,
                    "max_abs_dlogit": found.max_abs_dlogit,
                    "max_abs_dlogprob": found.max_abs_dlogprob,
                }
            )
    if not rows:
        says = "No row hash was recorded, so nothing is known of determinism."
        return Section(key="determinism", title="Determinism", says=(says,))
    says = "Determinism holds where it was promised."
    if refuted:
        says = f"Refuted: {', '.join(refuted)} should give identical rows and does not."
    elif not any(arm.rows_expected == "identical" for arm in content.arms("floor")):
        says = "No floor of this campaign promises identical rows."
    head = ["arm", *(["outlier windows"] if several else []), "rows must be", "rows identical", "windows identical"]
    grid = Grid(
        name="determinism",
        title="Rows against what they were compared with",
        head=(*head, "largest difference", "first difference"),
        rows=tuple(rows),
        fields=tuple(fields),
    )
    return Section(key="determinism", title="Determinism", says=(says,), grids=(grid,))


def withheld(content: Content) -> Section:
    """Every figure that has a reason in place of a number, by reason; the CSV has each of them."""
    found = [
        figure
        for book in (content.book, content.written)
        for figure in book.rows(outliers=list(content.sets))
        if is_withheld(figure)
    ]
    if not found:
        return Section(key="withheld", title="What was withheld", says=("No figure was withheld.",))
    groups: dict[tuple[str, str, str], list[Figure]] = defaultdict(list)
    for figure in found:
        # What follows a semicolon differs from arm to arm; the CSV file has it.
        reason = figure.reason.partition(";")[0] or "no reason was recorded"
        groups[figure.scope_kind, _figure_name(figure), reason].append(figure)
    whole = [(key, figures) for key, figures in groups.items() if key[0] in ("all", "panel")]
    kinds: dict[str, int] = defaultdict(int)
    for figure in found:
        kinds[figure.scope_kind] += 1
    rows = [
        Row(
            cells=(
                words(key[1]),
                words("all positions" if key[0] == "all" else f"panel {_joined(figure.scope for figure in figures)}"),
                words(_joined(figure.arm for figure in figures)),
                words(_joined(figure.outliers for figure in figures)),
                words(key[2]),
                count(len(figures)),
            )
        )
        for key, figures in sorted(whole, key=lambda item: (item[0][0], item[0][1], item[0][2]))
    ]
    spread = ", ".join(f"{number:,} by {kind}" for kind, number in sorted(kinds.items(), key=lambda item: -item[1]))
    says = (
        f"{len(found):,} figures were withheld ({spread}). None of them is a number that was left out: each says what "
        "it would have needed. Below are those over all positions and over panels; the CSV file has every one."
    )
    grid = Grid(
        name="withheld",
        title="Withheld over all positions and panels",
        head=("figure", "over", "arms", "outlier windows", "reason", "figures"),
        rows=tuple(rows),
        fields=figure_fields(found),
    )
    return Section(key="withheld", title="What was withheld and why", says=(says,), grids=(grid,) if rows else ())


def _figure_name(figure: Figure) -> str:
    return f"{figure.spec} {figure.statistic}"


def _joined(names) -> str:
    return ", ".join(dict.fromkeys(names))


def proposals(content: Content) -> Section:
    """Windows that the protocol's rule would report separately. They change no figure."""
    table = content.tables["proposals"].to_pylist()
    if not table:
        says = "The protocol's rule proposes no further window for separate reporting."
        return Section(key="proposals", title="Proposed outliers", says=(says,))
    rows = tuple(
        Row(
            cells=(
                words(row["window"], "declared" if row["declared"] else "post hoc: changes no figure of this protocol"),
                words(row["rule"]),
                words(row["floor"]),
                Cell(text=f"{row['value']:.3g}", number=True),
                Cell(text=f"{row['threshold']:.3g}", number=True),
                words(row["reason"]),
            )
        )
        for row in table
    )
    says = (
        "Found by rule after the results. No figure of this report leaves them out: only a protocol that declares a "
        "window before its results may."
    )
    grid = Grid(
        name="proposals",
        title="Proposals",
        head=("window", "rule", "floor", "value", "threshold", "reason"),
        rows=rows,
        fields=tuple(table),
    )
    return Section(key="proposals", title="Proposed outliers", says=(says,), grids=(grid,))


def decisions(content: Content) -> Section:
    """What counts now for each arm, and everything that was decided before."""
    names = [arm.arm for arm in content.judged]
    current = content.decisions.current()
    says = [decisions_sentence(names, content.decisions)] if names else ["There is no arm to decide about."]
    if content.decisions.damaged:
        says.append(f"Entries that cannot be read and are left out: {', '.join(content.decisions.damaged)}.")
    grids = []
    if current:
        rows = [Row(cells=(words(name), *_decided(current.get(name))), arm=name) for name in names]
        grids.append(
            Grid(
                name="decisions",
                title="Decisions",
                head=("arm", "decision", "reason", "by", "when"),
                rows=tuple(rows),
                fields=tuple(decision_rows(content.decisions.entries)),
            )
        )
    if len(content.decisions.entries) > len(current):
        rows = [Row(cells=(words(entry.arm), *_decided(entry)), arm=entry.arm) for entry in content.decisions.entries]
        grids.append(
            Grid(
                name="decisions-history",
                title="Everything that was decided",
                head=("arm", "decision", "reason", "by", "when"),
                rows=tuple(rows),
                fields=tuple(decision_rows(content.decisions.entries)),
            )
        )
    return Section(key="decisions", title="Decisions", says=tuple(says), grids=tuple(grids))


def _decided(entry: Decision | None) -> tuple[Cell, ...]:
    if entry is None:
        return (words("open", grey=True), words(""), words(""), words(""))
    return (
        Cell(text=entry.decision, mark=DECIDED_MARKS[entry.decision], figure="decision"),
        words(entry.reason),
        words(entry.name),
        words(when(entry.time_ms)),
    )
