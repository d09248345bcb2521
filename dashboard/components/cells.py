"""How one figure reads in a table cell: value, verdict, interval, floor, and what to mind."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dashboard.components.markup import Html, tag
from dashboard.figures import (
    ANSWERS,
    PASSED,
    Column,
    is_withheld,
    write_counted,
    write_interval,
    write_number,
    write_value,
)
from drift_runs.charts import palette
from drift_runs.measure.figures import Figure

NAMED_SHARE = "Share of the resamples that hold this range in which it is the worst one."


def named_share(figure: Figure) -> str:
    """The share of the resamples that hold the named range in which it is the worst."""
    return "" if figure.named_share is None else f"{figure.named_share:.0%}"


def borrowed_chip(figure: Figure) -> Html | None:
    """The mark of a floor of another reference; None when the figure has none such."""
    if not figure.borrowed or not figure.floor:
        return None
    words = f"{figure.floor} is a floor of another reference: shown for its size, and it gives no verdict."
    return tag("span", "borrowed", cls="dr-chip dr-warn", title=words)


def verdict_chip(figure: Figure) -> Html | None:
    """The verdict as a mark with a shape and words; None when the figure has none."""
    if not figure.verdict:
        return None
    mark = (
        f"{palette.VERDICT_MARKS.get(figure.verdict, '')} {palette.VERDICT_LABELS.get(figure.verdict, figure.verdict)}"
    )
    return tag("span", mark, cls=f"dr-chip dr-{figure.verdict}", title=figure.verdict_reason or None)


def figure_cell(
    figure: Figure | None, column: Column, *, beside: Figure | None = None, counted: Sequence[str] = ()
) -> list[Html | None]:
    """Lines of a cell.

    A withheld figure shows its reason in place of a number; an indicative one is greyed and says how many values lie
    beyond it. ``beside``: a rate that belongs to the figure (``flip.strict`` to ``flip``, the rate to a count).
    ``counted``: lines below the interval that say what the figure counts.
    """
    if figure is None:
        return [_small("not measured")]
    if is_withheld(figure):
        return [tag("span", "withheld", cls="dr-line dr-grey"), _small(figure.reason)]
    grey = " dr-grey" if figure.state == "indicative" else ""
    whole = column.spec in (ANSWERS.spec, PASSED.spec) and column.unit == "share"
    value = write_counted(figure) if whole else write_value(figure, column.unit)
    lines: list[Html | None] = [tag("span", tag("span", value, cls="dr-value dr-num" + grey), cls="dr-line")]
    if whole:
        lines.append(_small(write_value(figure, column.unit), plain=False))
    if figure.named:
        lines.append(tag("span", tag("b", figure.named), cls="dr-line dr-small dr-wrap"))
        share = named_share(figure)
        words = f"n {figure.n:,}, worst in {share}" if share else f"n {figure.n:,}"
        lines.append(_small(words, NAMED_SHARE if share else ""))
    interval = write_interval(figure, column.unit)
    if interval:
        lines.append(_small(interval, figure.interval, plain=False))
    if column.unit == "count":
        lines.append(_small(f"of {figure.n:,}"))
    lines += [_small(words) for words in counted]
    if beside is not None and not is_withheld(beside):
        value = write_value(beside, "share")
        if beside.spec == figure.spec:
            lines.append(_small(value, plain=False))
            lines.append(_small(write_interval(beside, "share"), beside.interval, plain=False))
        else:
            words = f"{beside.spec.removeprefix(f'{figure.spec}.')} {value}"
            between = write_interval(beside, "share")
            lines.append(_small(words, f"{beside.spec} {value} {between}".strip(), plain=False))
    if figure.floor and figure.floor_value is not None:
        shown = write_number(figure.floor_value, column.unit, digits=2)
        lines.append(_small(f"floor {shown}", f"floor: {figure.floor}", plain=False))
        lines.append(borrowed_chip(figure))
    lines.append(verdict_chip(figure))
    if figure.state == "indicative":
        beyond = "" if figure.beyond is None else f", {figure.beyond} beyond"
        lines.append(_small(f"indicative{beyond}"))
    return lines


def _small(words: str, title: str = "", *, plain: bool = True) -> Html | None:
    """A small line; not ``plain`` keeps it in one piece with figures of one width."""
    kind = "dr-wrap" if plain else "dr-num"
    return tag("span", words, cls=f"dr-line dr-small {kind}", title=title or None) if words else None


def header_cell(column: Column, *, rowspan: int | None = None) -> Html:
    """Column header: plain words, then the spec id."""
    # A line may break behind a full stop or a low line, and nowhere else in a word.
    parts = [tag("span", part, cls="dr-part") for part in re.findall(r"[^._]+[._]?", column.spec)]
    spec = tag("span", parts, cls="dr-line dr-spec")
    return tag("th", column.header, spec, scope="col", rowspan=rowspan)


def table(
    caption: str | Html, head: list[Html], body: list[Html], *, label: str, wide: bool = False, compact: bool = False
) -> Html:
    """A table that scrolls sideways in its own box when it is wider than the page.

    ``head``: cells of one header row, or whole rows. ``wide``: the first column stays in sight while it scrolls.
    ``compact``: many columns, which a window of 1440 pixels is to hold.
    """
    rows = head if head and head[0].startswith("<tr") else tag("tr", head)
    kind = " ".join(["dr-table", *(["dr-wide"] if wide else []), *(["dr-compact"] if compact else [])])
    grid = tag("table", tag("thead", rows), tag("tbody", body), cls=kind, aria_label=label)
    # A box that scrolls can be reached and moved by keyboard.
    reached = {"tabindex": "0", "role": "region", "aria_label": f"{label}, scrolls sideways"} if wide else {}
    box = tag("div", grid, cls="dr-scroll", **reached)
    return tag("div", tag("p", caption, cls="dr-caption") if caption else None, box)
