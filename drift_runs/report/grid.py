"""What a report is made of, without a form: sections, tables, cells. HTML, Markdown and CSV are written from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drift_runs.charts import palette
from drift_runs.measure.figures import Figure
from drift_runs.report.figures import Column, is_withheld, write_counted, write_interval, write_number, write_value

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: what is read first, and the smaller lines below it."""

    text: str
    small: tuple[str, ...] = ()
    figure: str = ""
    """Name of the figure that stands here, so that a program finds it on the page."""
    mark: str = ""
    """``above``, ``within``, ``inconclusive``, ``outlier``, ``warn``: the colour of the last small line."""
    grey: bool = False
    number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of cells; the first one names it."""

    cells: tuple[Cell, ...]
    arm: str = ""
    outliers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table."""

    name: str
    """Of its CSV file."""
    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    says: str = ""
    fields: tuple[Mapping[str, object], ...] = ()
    """The same as flat rows at full precision; without them the cells' own texts are written."""

    def flat(self) -> Sequence[Mapping[str, object]]:
        """Rows for a CSV."""
        if self.fields:
            return self.fields
        return [dict(zip(self.head, (cell.text for cell in row.cells), strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart with what it shows in words."""

    name: str
    says: str
    chart: alt.TopLevelMixin
    width_px: int = 940
    half: bool = False
    """Reads well at half the width, beside another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, sentences, pictures and tables."""

    key: str
    title: str
    says: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    grids: tuple[Grid, ...] = ()


def words(text: object, *small: str, grey: bool = False, mark: str = "") -> Cell:
    """A cell of words."""
    return Cell(text=str(text), small=tuple(line for line in small if line), grey=grey, mark=mark)


def count(number: int | None) -> Cell:
    return Cell(text="-" if number is None else f"{number:,}", number=True)


def figure_cell(figure: Figure | None, column: Column, *, beside: Sequence[str] = ()) -> Cell:
    """A figure with its interval, floor and verdict; a withheld one with its reason in place of a number."""
    if figure is None:
        return Cell(text="not measured", figure=column.key, grey=True)
    if is_withheld(figure):
        return Cell(text="withheld", small=(figure.reason,), figure=column.key, grey=True)
    counted = column.key == "answers"
    lines = [write_value(figure, column.unit)] if counted else []
    if figure.named:
        share = "" if figure.named_share is None else f", worst in {figure.named_share * 100:.0f}\u00a0%"
        lines += [figure.named, f"n {figure.n:,}{share}"]
    if interval := write_interval(figure, column.unit):
        lines.append(interval)
    if column.unit == "count":
        lines.append(f"of {figure.n:,}")
    lines += beside
    if figure.floor and figure.floor_value is not None:
        borrowed = ", borrowed: no verdict" if figure.borrowed else ""
        lines.append(f"floor {write_number(figure.floor_value, column.unit, digits=2)}{borrowed}")
    if figure.state == "indicative":
        lines.append("indicative" + ("" if figure.beyond is None else f", {figure.beyond} beyond"))
    if figure.verdict:
        mark = palette.VERDICT_MARKS.get(figure.verdict, "")
        lines.append(f"{mark} {palette.VERDICT_LABELS.get(figure.verdict, figure.verdict)}")
    return Cell(
        text=write_counted(figure) if counted else write_value(figure, column.unit),
        small=tuple(lines),
        figure=column.key,
        mark=figure.verdict,
        grey=figure.state == "indicative",
        number=True,
    )
