"""Results that other people published, as data with their source (schema ``drift.published/1``).

They are facts and not figures of this tool: nothing here becomes a row of ``FIGURES``, and nothing is ranked with one.
A column says which spec id its numbers follow, or that the source did not publish the definition.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from drift_runs.errors import ProtocolError
from drift_runs.protocol.canonical import canonical_json
from drift_runs.protocol.model import Name, Part
from drift_runs.protocol.problems import Problems, add_validation_errors, check_field_names, check_values

SCHEMA = "drift.published/1"

NOT_PUBLISHED = "not published"
"""As a column's spec: the source gives numbers without the definition that would say what they are."""

NO_ROWS = "no rows"
"""As ``recomputable``: nobody can compute the figure again, because its rows are not public."""

_ROWS_IN = re.compile(r"from rows in [\w.-]+/[\w.-]+\Z")
_SPEC = re.compile(r"[a-z]+[a-z_.-]*(@[1-9][0-9]*)?\Z")

Number = Annotated[float, Field(allow_inf_nan=False)]
Line = Annotated[str, Field(min_length=1)]


class Cell(Part):
    """One published number, or what stands in its place. At least one of ``value``, ``least`` and ``text`` is given."""

    value: Number | None = None
    """In the column's unit."""
    qualifier: Literal["", "about", "under", "over"] = ""
    """How exactly the source puts it; empty for a figure as it stands."""
    of: Annotated[int, Field(ge=1)] | None = None
    """Of how many, where ``value`` is a count."""
    least: Number | None = None
    """With ``most``: smallest and largest of several runs or windows."""
    most: Number | None = None
    low: Number | None = None
    """With ``high``: the interval that the source gives."""
    high: Number | None = None
    interval: str = ""
    """What kind of interval that is; ``level and method not published`` where nothing is said."""
    n: Annotated[int, Field(ge=1)] | None = None
    """Positions, windows or items behind it, where known."""
    text: str = ""
    """An outcome in words."""
    note: str = ""

    @model_validator(mode="after")
    def _says_something(self) -> Cell:
        for pair, names in (((self.least, self.most), "least and most"), ((self.low, self.high), "low and high")):
            if (pair[0] is None) != (pair[1] is None):
                raise ValueError(f"{names} belong together")
            if pair[0] is not None and pair[1] is not None and pair[0] > pair[1]:
                raise ValueError(f"{names} are in the wrong order")
        if self.value is None and self.least is None and not self.text:
            raise ValueError("a cell needs a value, least and most, or a text")
        if (self.low is None) == bool(self.interval):
            raise ValueError("an interval needs low, high and a word on its kind")
        return self


class Column(Part):
    """What one column of a published table is."""

    name: Name
    title: Line
    unit: str = ""
    """nats, %, share, count, tokens, items; empty for words."""
    spec: str
    """Spec id with its K, or ``not published``."""
    statistic: str = ""
    """mean, p95, rate, ...; of ``spec`` where there is one."""
    definition: Line
    """What the source says that it computed, and what it leaves open."""

    @field_validator("spec")
    @classmethod
    def _spec(cls, value: str) -> str:
        if value != NOT_PUBLISHED and not _SPEC.match(value):
            raise ValueError(f"a spec id such as kl.full or kl.topk-shared@20, or '{NOT_PUBLISHED}'")
        return value

    @property
    def defined(self) -> bool:
        """Whether the source's definition is known."""
        return self.spec != NOT_PUBLISHED


class Row(Part):
    """One line of a published table."""

    name: Name
    """Unique in its table."""
    title: Line
    cells: dict[str, Cell]
    """By column name; a column that is not there was not published."""
    recomputable: str = ""
    """Instead of the table's, where this row differs."""
    note: str = ""

    @field_validator("recomputable")
    @classmethod
    def _recomputable(cls, value: str) -> str:
        return value and recomputable(value)


class Table(Part):
    """One published table, or one set of figures of a text."""

    name: Name
    """Unique in its source."""
    title: Line
    compared: Line
    """Candidate against reference, on what."""
    recomputable: str
    """``no rows``, or ``from rows in <repository>``."""
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[Line, ...] = ()

    @field_validator("recomputable")
    @classmethod
    def _recomputable(cls, value: str) -> str:
        return recomputable(value)

    @model_validator(mode="after")
    def _names(self) -> Table:
        columns = [column.name for column in self.columns]
        unique("columns", columns)
        unique("rows", [row.name for row in self.rows])
        for row in self.rows:
            for name in row.cells:
                if name not in columns:
                    raise ValueError(f"row '{row.name}' has a cell '{name}', which is no column of table '{self.name}'")
        return self

    def recomputable_row(self, row: Row) -> str:
        """The row's word on it, or the table's."""
        return row.recomputable or self.recomputable


class Failure(Part):
    """A place where a published text went wrong, token by token."""

    name: Name
    where: Line
    arm: str = ""
    expected: str = ""
    """What the reference writes."""
    got: str = ""
    reference_token: str = ""
    reference_p: Annotated[float, Field(ge=0, le=1)] | None = None
    """Probability that the reference gives its own token."""
    candidate_token: str = ""
    candidate_p: Annotated[float, Field(ge=0, le=1)] | None = None
    consequence: str = ""


class PublishedSource(Part):
    """Everything of one source. Facts only, in words of our own."""

    schema_: Annotated[Literal["drift.published/1"], Field(alias="schema")]
    name: Name
    title: Line
    source: Line
    """Who published it, and where."""
    date: Line
    """Year and month, or ``not given``."""
    subject: Line
    tables: tuple[Table, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[Line, ...] = ()

    @model_validator(mode="after")
    def _names(self) -> PublishedSource:
        unique("tables", [table.name for table in self.tables])
        unique("failures", [failure.name for failure in self.failures])
        return self


def recomputable(value: str) -> str:
    """The value when it is well-formed; ``ValueError`` otherwise."""
    if value != NO_ROWS and not _ROWS_IN.match(value):
        raise ValueError(f"expected '{NO_ROWS}' or 'from rows in <owner>/<repository>'")
    return value


def unique(noun: str, names: list[str]) -> None:
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{noun} named twice: {', '.join(repeated)}")


def published_folder() -> Path | None:
    """Where the files lie: in the project's tree, else in the installed package; None when neither has them."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent / "protocols" / "published", package / "shipped_protocols" / "published"):
        if folder.is_dir():
            return folder
    return None


def load_published(folder: Path | None = None) -> tuple[PublishedSource, ...]:
    """Every published source, by file name; none where there is no folder.

    Raises ``ProtocolError`` for a file that is wrong, with its key.
    """
    folder = folder or published_folder()
    files = sorted(folder.glob("*.toml")) if folder else []
    return tuple(read_published(path) for path in files)


def read_published(path: Path) -> PublishedSource:
    """One file; its stem is the source's name."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProtocolError(f"cannot be read: {error.strerror}", where=path.name) from error
    except ValueError as error:
        raise ProtocolError(f"not valid TOML in UTF-8: {error}", where=path.name) from error
    problems = Problems(path.name, content)
    check_values(problems, content)
    problems.raise_all()
    check_field_names(problems, PublishedSource, content)
    problems.raise_all()
    try:
        source = PublishedSource.model_validate_json(canonical_json(content), strict=True)
    except ValidationError as failure:
        add_validation_errors(problems, PublishedSource, failure)
        problems.raise_all()
        raise
    if source.name != path.stem:
        problems.add(("name",), f"'{source.name}' is not the file's name", expected=f"'{path.stem}'")
    problems.raise_all()
    return source
