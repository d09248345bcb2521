"""``csv``: one line a position with a window, a position and a divergence that another tool computed.

The header is read without regard to case. Columns, and the other names that are taken for them:

``window`` (``context``, ``chunk``, ``sequence``); ``position`` (``pos``): the number of tokens of history, or ``row``:
the index of the row that makes the prediction, which is one less; ``kl`` (``kl_nats``, ``kld``); and, if there,
``kl_spec``, ``role``, ``document`` (``cluster``), ``group`` (``bucket``, ``stratum``), ``token`` (``token_id``),
``flip``, ``nll`` (``candidate_nll``), ``ref_nll`` (``reference_nll``). Another column is an error: a name that this
does not know could be one that matters.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from drift_runs.errors import one_line
from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.source import WINDOWS_LIMIT, Source, read_source
from drift_runs.measure.sentinels import LARGEST_KL_NATS, is_sentinel
from drift_runs.measure.specs import BY_BASE, base_of
from drift_runs.schema import COMPARISON, RowFlag

FORMAT = "csv"
KIND = "comparison"
HELP = "one line a position: window, position (or row) and kl, with a header"
EQUAL_FACTS = ("spec", "counts positions by")
POSITION_CONVENTION = "position counts the tokens of history: position t predicts token t from the t before it"
ROW_CONVENTION = "row is the index of the row that makes the prediction: read as position row + 1"

FILE_LIMIT_BYTES = 512 * 2**20
LINE_LIMIT_CHARACTERS = 10_000
NAME_LIMIT_CHARACTERS = 200
LARGEST = 2**31 - 1
KL_LEAST = -1e-3
"""A divergence below zero by more than rounding is none."""

ALIASES: dict[str, tuple[str, ...]] = {
    "window": ("context", "chunk", "sequence"),
    "position": ("pos",),
    "row": (),
    "kl": ("kl_nats", "kld"),
    "kl_spec": (),
    "role": (),
    "document": ("cluster",),
    "group": ("bucket", "stratum"),
    "token": ("token_id",),
    "flip": (),
    "nll": ("candidate_nll",),
    "ref_nll": ("reference_nll",),
}
_NAMES = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}
_WHOLE = re.compile(r"\d{1,10}")
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?")
_ABSENT = frozenset({"", "nan", "+nan", "-nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity", "null"})
_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no"})


def read(path: Path) -> ImportedFile:
    """A candidate's positions, schema ``COMPARISON``; ``ImportFileError`` with file and line for what does not fit."""
    source = read_source(path, limit_bytes=FILE_LIMIT_BYTES)
    lines = records(source)
    header = read_header(source, lines)
    counts_rows = "row" in header
    reader = Reader(source)
    for number, record in lines:
        if len(record) != len(header):
            source.refuse(f"{len(record)} fields", at=f"line {number}", expected=f"{len(header)}, as in the header")
        reader.add(number, dict(zip(header, record, strict=True)), counts_rows)
    if not reader.positions:
        source.refuse("no positions below the header")
    spec = reader.spec or "kl.full"
    notes = []
    if not reader.spec:
        notes.append("the file does not say which divergence its column holds: read as kl.full, in nats")
    for name, count in reader.absent.items():
        notes.append(f"values of {name} that are empty, NaN or infinite, left out: {count}")
    if reader.sentinels:
        notes.append(
            f"values of nll or ref_nll that stand for 'not known' (100, or 1000 and more), left out: {reader.sentinels}"
        )
    if "document" not in header:
        notes.append("no column says which document a window belongs to: every window is a cluster of its own")
    return ImportedFile(
        format=FORMAT,
        kind=KIND,
        path=path,
        sha256=source.sha256,
        table=reader.table(spec),
        top_k=int(spec.partition("@")[2]) if "@" in spec else None,
        convention=ROW_CONVENTION if counts_rows else POSITION_CONVENTION,
        cluster="document" if "document" in header else "window",
        windows=reader.windows(),
        facts={"spec": spec, "counts positions by": "row" if counts_rows else "position"},
        notes=tuple(notes),
        divergence=base_of(spec),
    )


def records(source: Source) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of each line that is not empty."""
    try:
        text = source.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.data.count(b"\n", 0, error.start) + 1
        source.refuse("not UTF-8", at=f"line {line}", expected="a CSV file in UTF-8")
    if "\x00" in text:
        source.refuse("holds a null byte", at=f"line {text[: text.index(chr(0))].count(chr(10)) + 1}")
    reader = csv.reader(limited(source, io.StringIO(text, newline="")), strict=True)
    try:
        for record in reader:
            if record:
                yield reader.line_num, record
    except csv.Error as error:
        source.refuse(f"not valid CSV: {error}", at=f"line {reader.line_num}")


def limited(source: Source, lines: io.StringIO) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_LIMIT_CHARACTERS:
            source.refuse(
                f"the line has {len(line):,} characters", at=f"line {number}", expected=f"{LINE_LIMIT_CHARACTERS:,}"
            )
        yield line


def read_header(source: Source, lines: Iterator[tuple[int, list[str]]]) -> list[str]:
    """The columns by their own names, in the file's order."""
    _, written = next(lines, (0, []))
    header = []
    for name in written:
        known = _NAMES.get(name.strip().casefold())
        if known is None:
            source.refuse(
                f"unknown column {name.strip()[:40]!r}", at="header", expected="some of " + ", ".join(ALIASES)
            )
        if known in header:
            source.refuse(f"two columns are read as {known!r}", at="header")
        header.append(known)
    if "position" in header and "row" in header:
        source.refuse(
            "both 'position' and 'row' are there", at="header", todo="keep the one whose meaning you are sure of"
        )
    if "position" not in header and "row" not in header:
        source.refuse("no column 'position' or 'row'", at="header", expected="how a position is counted")
    for name in ("window", "kl"):
        if name not in header:
            source.refuse(f"no column {name!r}", at="header", expected="window, position (or row), kl")
    return header


class Reader:
    """Collects the lines of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.spec = ""
        self.absent: dict[str, int] = {}
        self.sentinels = 0
        self.positions: set[tuple[str, int]] = set()
        self.documents: dict[str, tuple[str, str, str]] = {}
        self.scored: dict[str, list[int]] = {}
        self.columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "window",
                "position",
                "role",
                "token",
                "kl",
                "flip",
                "candidate_nll_nats",
                "reference_nll_nats",
                "flags",
            )
        }

    def add(self, number: int, fields: dict[str, str], counts_rows: bool) -> None:
        at = f"line {number}"
        fields = {name: text.strip() for name, text in fields.items()}
        window = self.name(at, fields["window"], "window")
        counted = "row" if counts_rows else "position"
        position = self.whole(at, fields[counted], counted) + counts_rows
        if position < 1 or position > LARGEST:
            self.source.refuse(
                f"position {position}", at=at, expected="1 or more: the first token of a stream has no prediction"
            )
        if (window, position) in self.positions:
            self.source.refuse(f"position {position} of window {window!r} stands twice", at=at)
        self.positions.add((window, position))
        role = fields.get("role", "") or "prompt"
        if role not in ("prompt", "generated"):
            self.source.refuse(f"role {role[:40]!r}", at=at, expected="prompt or generated")
        belongs = (fields.get("document", "") or window, fields.get("group", ""), role)
        if self.documents.setdefault(window, belongs)[:2] != belongs[:2]:
            self.source.refuse(f"window {window!r} is in another document or group than before", at=at)
        if len(self.documents) > WINDOWS_LIMIT:
            self.source.refuse(f"more than {WINDOWS_LIMIT:,} windows", at=at)
        self.scored.setdefault(window, []).append(position)
        self.take_spec(at, fields.get("kl_spec"))
        kl = self.number(at, fields["kl"], "kl")
        if kl is not None and kl < KL_LEAST:
            self.source.refuse(f"kl is {kl:g}", at=at, expected="a divergence in nats, 0 or more")
        if kl is not None and kl > LARGEST_KL_NATS:
            self.source.refuse(f"kl is {kl:g}", at=at, expected=f"a divergence of at most {LARGEST_KL_NATS:,.0f} nats")
        infinite = fields["kl"].casefold().lstrip("+") in ("inf", "infinity")
        self.columns["window"].append(window)
        self.columns["position"].append(position)
        self.columns["role"].append(role)
        self.columns["token"].append(self.whole(at, fields["token"], "token") if fields.get("token") else None)
        self.columns["kl"].append(kl)
        self.columns["flip"].append(self.truth(at, fields["flip"]) if "flip" in fields else None)
        flags = int(RowFlag.INFINITE_KL) if infinite else 0
        for column, name in (("candidate_nll_nats", "nll"), ("reference_nll_nats", "ref_nll")):
            value = self.number(at, fields[name], name) if name in fields else None
            if value is not None and value < KL_LEAST:
                self.source.refuse(f"{name} is {value:g}", at=at, expected="minus a log-probability, 0 or more")
            if value is not None and is_sentinel(-value):
                self.sentinels += 1
                flags |= RowFlag.SENTINEL
                value = None
            self.columns[column].append(value)
        self.columns["flags"].append(flags)

    def take_spec(self, at: str, written: str | None) -> None:
        """The definition of ``kl``; it must be one for the whole file."""
        if written is None:
            return
        base, _, k = written.partition("@")
        if base not in BY_BASE or BY_BASE[base].needs_k != bool(k) or (k and not re.fullmatch(r"[1-9]\d{0,3}", k)):
            options = [f"{name}@K" if item.needs_k else name for name, item in BY_BASE.items()]
            self.source.refuse(f"kl_spec {written[:40]!r}", at=at, expected="one of " + ", ".join(options))
        if self.spec and self.spec != written:
            self.source.refuse(f"kl_spec is {written!r}, and was {self.spec!r}", at=at, expected="one for the file")
        self.spec = written

    def name(self, at: str, text: str, what: str) -> str:
        if not text or len(text) > NAME_LIMIT_CHARACTERS or one_line(text) != text:
            self.source.refuse(f"{what} {text[:40]!r}", at=at, expected=f"1 to {NAME_LIMIT_CHARACTERS} letters")
        return text

    def whole(self, at: str, text: str, what: str) -> int:
        if not (text.isascii() and _WHOLE.fullmatch(text)) or int(text) > LARGEST:
            self.source.refuse(f"{what} {text[:40]!r}", at=at, expected=f"a whole number of at most {LARGEST}")
        return int(text)

    def number(self, at: str, text: str, what: str) -> float | None:
        """A number; None, counted, where there is none."""
        value: float | None = None
        if text.casefold() not in _ABSENT:
            if not (text.isascii() and _DECIMAL.fullmatch(text)):
                self.source.refuse(f"{what} {text[:40]!r}", at=at, expected="a number with a decimal point")
            value = float(text)
        if value is None or not math.isfinite(value):
            self.absent[what] = self.absent.get(what, 0) + 1
            return None
        return value

    def truth(self, at: str, text: str) -> bool | None:
        folded = text.casefold()
        if folded in _ABSENT:
            self.absent["flip"] = self.absent.get("flip", 0) + 1
            return None
        if folded not in _TRUE | _FALSE:
            self.source.refuse(f"flip {text[:40]!r}", at=at, expected="0 or 1, true or false")
        return folded in _TRUE

    def table(self, spec: str) -> pa.Table:
        """What was collected, schema ``COMPARISON``, nulls in what this format cannot say."""
        count = len(self.positions)
        columns = dict(self.columns)
        columns[BY_BASE[base_of(spec)].column] = columns.pop("kl")
        if "@" in spec:
            columns["top_k"] = [int(spec.partition("@")[2])] * count
        return pa.table(
            {
                field.name: pa.array(columns[field.name], field.type)
                if field.name in columns
                else pa.nulls(count, field.type)
                for field in COMPARISON
            },
            schema=COMPARISON,
        )

    def windows(self) -> tuple[ImportedWindow, ...]:
        return tuple(
            ImportedWindow(name=window, document=document, group=group, role=role, scored=spans(self.scored[window]))
            for window, (document, group, role) in self.documents.items()
        )


def spans(positions: list[int]) -> tuple[tuple[int, int], ...]:
    """Half-open spans of positions without repeats."""
    found: list[list[int]] = []
    for position in sorted(positions):
        if found and found[-1][1] == position:
            found[-1][1] += 1
        else:
            found.append([position, position + 1])
    return tuple((start, end) for start, end in found)
