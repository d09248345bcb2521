"""``rows``: the plain format for anybody's harness, JSON lines or Parquet. docs/formats.md describes it in full.

JSON lines start with a header, ``{"schema": "drift.import.rows/1", "top_k": 20, "normalised": true}``, and go on with
one object a position. A Parquet file is a table of schema ``ROWS``, as captures are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field

from drift_runs.errors import one_line
from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.csv_positions import NAME_LIMIT_CHARACTERS, spans
from drift_runs.importers.source import WINDOWS_LIMIT, Foreign, Source, fitted, json_lines, read_source
from drift_runs.measure.determinism import row_top_hash
from drift_runs.measure.sentinels import WORDS, is_sentinel
from drift_runs.measure.topk import compare_topk
from drift_runs.protocol.problems import did_you_mean, shown
from drift_runs.schema import ROWS, RowFlag

FORMAT = "rows"
KIND = "rows"
HELP = "the plain format of docs/formats.md: JSON lines or Parquet with K best entries a position"
SCHEMA = "drift.import.rows/1"
EQUAL_FACTS = ("dictionary size", "normalised")
CONVENTION = "position t predicts token t from the t tokens before it, special tokens included"

LARGEST = 2**31 - 1
LARGEST_K = 2**16
EQUAL_NATS = 1e-6
"""How far two statements of one log-probability may lie apart, and a sum of probabilities above 1."""
LEAST_MASS = 1 - 1e-3
"""Of entries and tail together, where both are given."""
LOGPROB = "a natural log-probability, 0 or less"
LARGEST_NUMBER = 2**53
"""Of a whole number: there are larger ones that no float can hold."""
ABOVE_ZERO = 1e-2
"""An offset of a server can lift a log-probability above 0, where the header says that rows are not normalised."""
HIGHEST_MASS = 1.05
"""Beyond it these are no log-probabilities, whatever the header says."""
NEED_NORMALISED = (
    "kl_topk_tail_nats",
    "kl_topk_lower_nats",
    "reference_entropy_topk_nats",
    "candidate_entropy_topk_nats",
)
"""Columns that take what the entries leave of 1 for the mass of the rest."""

Id = Annotated[int, Field(ge=0, le=LARGEST)]
Entry = Annotated[list[int | float], Field(min_length=2, max_length=2)]


class Strict(Foreign):
    """The format is ours, so an unknown key is an error and not somebody else's business."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Header(Strict):
    schema_: Annotated[str, Field(alias="schema")]
    top_k: Annotated[int, Field(ge=1, le=LARGEST_K)]
    normalised: bool
    dictionary_size: Annotated[int, Field(ge=2, le=LARGEST)] | None = None
    facts: dict[str, str | int | float | bool] = Field(default_factory=dict)


class Position(Strict):
    window: str
    position: Annotated[int, Field(ge=1, le=LARGEST)]
    token: Id
    role: Literal["prompt", "generated"] = "prompt"
    document: str | None = None
    group: str = ""
    top: Annotated[list[Entry], Field(min_length=1)]
    logprob: float | None = None
    wanted: list[Entry] | None = None
    tail_logprob: float | None = None


def read(path: Path) -> ImportedFile:
    """One arm's rows, schema ``ROWS``; ``ImportFileError`` with file and line for anything that cannot be trusted."""
    path = Path(path)
    source = read_source(path)
    if source.data[:4] == b"PAR1":
        from drift_runs.importers.plain_parquet import read_parquet

        return read_parquet(source)
    lines = json_lines(source)
    number, content = next(lines, (1, None))
    header = read_header(source, content, f"line {number}")
    rows = Rows(source, header)
    for number, content in lines:
        rows.add(f"line {number}", content)
    if not rows.columns["window"]:
        source.refuse("no positions below the header")
    return rows.file()


def compare_files(reference: ImportedFile, candidate: ImportedFile) -> pa.Table:
    """Schema ``COMPARISON``. Of rows that are not normalised, figures that need it are null: no bound follows."""
    table = compare_topk(reference.table, candidate.table)
    if "no" in (reference.facts.get("normalised"), candidate.facts.get("normalised")):
        for name in NEED_NORMALISED:
            index = table.column_names.index(name)
            table = table.set_column(index, table.field(index), pa.nulls(table.num_rows, table.field(index).type))
    return table


def read_header(source: Source, content: Any, at: str) -> Header:
    expected = f'{{"schema": "{SCHEMA}", "top_k": 20, "normalised": true}}'
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        named = content.get("schema") if isinstance(content, dict) else None
        what = "no schema is named" if named is None else f"schema {str(named)[:60]!r}"
        source.refuse(what, at=at, expected=f"a header such as {expected}")
    check_keys(source, content, Header, at)
    return fitted(source, content, Header, at=at)


def check_keys(source: Source, content: Any, model: type[Strict], at: str) -> None:
    if not isinstance(content, dict):
        source.refuse("no object", at=at, expected="a JSON object")
    keys = [field.alias or name for name, field in model.model_fields.items()]
    for key in content:
        if key not in keys:
            source.refuse(
                f"unknown key {key[:40]!r}", at=at, expected="some of " + ", ".join(keys), todo=did_you_mean(key, keys)
            )


class Rows:
    """Collects the positions of one file."""

    def __init__(self, source: Source, header: Header) -> None:
        self.source = source
        self.header = header
        self.columns: dict[str, list[Any]] = {name: [] for name in ROWS.names}
        self.seen: set[tuple[str, int]] = set()
        self.places: dict[str, tuple[str, str, Literal["prompt", "generated"]]] = {}
        self.scored: dict[str, list[int]] = {}
        self.short = 0
        self.sentinels = 0
        self.without_document = False

    def add(self, at: str, content: Any) -> None:
        check_keys(self.source, content, Position, at)
        row = fitted(self.source, content, Position, at=at)
        for name in ("window", "document", "group"):
            text = getattr(row, name) or ""
            if len(text) > NAME_LIMIT_CHARACTERS or one_line(text) != text or (name == "window" and not text):
                self.source.refuse(f"{name} {text[:40]!r}", at=at, expected=f"1 to {NAME_LIMIT_CHARACTERS} letters")
        if (row.window, row.position) in self.seen:
            self.source.refuse(f"position {row.position} of window {row.window!r} stands twice", at=at)
        self.seen.add((row.window, row.position))
        self.without_document |= row.document is None
        place = (row.window if row.document is None else row.document, row.group, row.role)
        if self.places.setdefault(row.window, place)[:2] != place[:2]:
            self.source.refuse(f"window {row.window!r} is in another document or group than before", at=at)
        if len(self.places) > WINDOWS_LIMIT:
            self.source.refuse(f"more than {WINDOWS_LIMIT:,} windows", at=at)
        self.scored.setdefault(row.window, []).append(row.position)
        self.check_id(at, row.token)
        self.take(at, row)

    def take(self, at: str, row: Position) -> None:
        """Append one row of ``ROWS``."""
        top_k = self.header.top_k
        flags = 0
        entries = self.entries(at, "top", row.top)
        if len(entries) > top_k:
            self.source.refuse(f"{len(entries)} entries in 'top'", at=at, expected=f"at most top_k = {top_k}")
        known = {token: value for token, value in entries.items() if not is_sentinel(value)}
        wanted = self.entries(at, "wanted", row.wanted or [])
        given = dict(wanted)
        if row.logprob is not None:
            self.check_logprob(at, "logprob", row.logprob)
            self.check_equal(at, "logprob and 'wanted'", row.logprob, wanted.get(row.token))
            given[row.token] = row.logprob
        sentinels = len(entries) - len(known) + sum(map(is_sentinel, given.values()))
        given = {token: value for token, value in given.items() if not is_sentinel(value)}
        if sentinels:
            self.sentinels += sentinels
            flags |= RowFlag.SENTINEL
        order = sorted(known, key=lambda token: (-np.float32(known[token]), token))
        values = [np.float32(known[token]) for token in order]
        if len(order) < top_k:
            self.short += 1
            flags |= RowFlag.SHORT
        least = min(known.values(), default=-math.inf)
        for token, value in given.items():
            self.check_equal(at, f"'top' and another statement of token {token}", value, known.get(token))
            if token not in known and len(order) == top_k and value > least + EQUAL_NATS:
                self.source.refuse(
                    f"token {token} has {value:.6g} and is not among the best", at=at, expected=f"at most {least:.6g}"
                )
        self.check_mass(at, known, given, row.tail_logprob)
        asked = sorted(token for token in given if token in wanted)
        ties = sum(value == values[0] for value in values)
        columns = {
            "window": row.window,
            "position": row.position,
            "role": row.role,
            "token": row.token,
            "logprob": given.get(row.token, known.get(row.token)),
            "rank": 1 + sum(value > known[row.token] for value in known.values()) if row.token in known else None,
            "top_ids": order,
            "top_logprobs": values,
            "wanted_ids": asked if row.wanted is not None else None,
            "wanted_logprobs": [wanted[token] for token in asked] if row.wanted is not None else None,
            "tail_logprob": row.tail_logprob,
            "tie_count": ties,
            "p1": math.exp(values[0]) if values else None,
            "row_top": row_top_hash(np.array(order, np.int32), np.array(values, np.float32), row.position, top_k)
            if order
            else None,
            "flags": flags if order else flags | RowFlag.UNHASHABLE,
        }
        for name, column in self.columns.items():
            column.append(columns.get(name))

    def entries(self, at: str, name: str, pairs: list[Entry]) -> dict[int, float]:
        """Log-probabilities by id, as written."""
        entries: dict[int, float] = {}
        for token, value in pairs:
            if not isinstance(token, int) or not 0 <= token <= LARGEST:
                self.source.refuse(f"{token!r} in {name!r} is no token id", at=at, expected="[id, log-probability]")
            self.check_id(at, token)
            if token in entries:
                self.source.refuse(f"token {token} stands twice in {name!r}", at=at)
            if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
                self.source.refuse(f"token {token} in {name!r} has {shown(value)}", at=at, expected=LOGPROB)
            self.check_logprob(at, f"token {token} in {name!r}", value)
            entries[token] = float(value)
        return entries

    def check_id(self, at: str, token: int) -> None:
        size = self.header.dictionary_size
        if size is not None and token >= size:
            self.source.refuse(f"token id {token}", at=at, expected=f"ids below dictionary_size = {size}")

    def check_logprob(self, at: str, name: str, value: float) -> None:
        highest = EQUAL_NATS if self.header.normalised else ABOVE_ZERO
        if value > highest:
            self.source.refuse(f"{name} has {value:.6g}", at=at, expected=LOGPROB)

    def check_equal(self, at: str, name: str, value: float, other: float | None) -> None:
        if other is not None and abs(value - other) > EQUAL_NATS:
            self.source.refuse(f"{name} differ: {value:.9g} and {other:.9g}", at=at, expected="one value")

    def check_mass(self, at: str, known: dict[int, float], given: dict[int, float], tail: float | None) -> None:
        others = [value for token, value in given.items() if token not in known]
        top = math.fsum(map(math.exp, known.values()))
        mass = top + math.fsum(map(math.exp, others))
        if mass > (1 + EQUAL_NATS if self.header.normalised else HIGHEST_MASS):
            self.source.refuse(
                f"the entries sum to a probability of {mass:.9g}",
                at=at,
                expected="at most 1" if self.header.normalised else f"at most {HIGHEST_MASS}",
                todo='say "normalised": false in the header if your server adds a constant',
            )
        if tail is None:
            return
        if not self.header.normalised:
            self.source.refuse(
                "tail_logprob in a file that is not normalised", at=at, expected="no statement on the mass of the rest"
            )
        if is_sentinel(tail):
            self.source.refuse(f"tail_logprob {tail:g}", at=at, expected=f"the log of a mass, not {WORDS}")
        whole = top + math.exp(min(tail, 1.0))
        if not LEAST_MASS <= whole <= 1 + EQUAL_NATS:
            self.source.refuse(
                f"'top' and tail_logprob sum to a probability of {whole:.9g}", at=at, expected="1: the tail is the rest"
            )

    def file(self) -> ImportedFile:
        table = pa.table(self.columns, schema=ROWS)
        return imported(
            self.source,
            table,
            top_k=self.header.top_k,
            normalised=self.header.normalised,
            dictionary_size=self.header.dictionary_size,
            windows=tuple(windows_of(self.places, self.scored)),
            by_document=not self.without_document,
            facts={one_line(key): one_line(str(value)) for key, value in self.header.facts.items()},
            notes=tuple(self.notes()),
        )

    def notes(self) -> Iterator[str]:
        if self.short:
            yield f"{self.short:,} rows have fewer than {self.header.top_k} entries"
        if self.sentinels:
            yield f"{self.sentinels:,} log-probabilities stand for 'not known' ({WORDS}): left out"


def windows_of(
    places: dict[str, tuple[str, str, Literal["prompt", "generated"]]], scored: dict[str, list[int]]
) -> Iterator[ImportedWindow]:
    for window, (document, group, role) in places.items():
        yield ImportedWindow(name=window, document=document, group=group, role=role, scored=spans(scored[window]))


def imported(
    source: Source,
    table: pa.Table,
    *,
    top_k: int,
    normalised: bool,
    dictionary_size: int | None,
    windows: tuple[ImportedWindow, ...],
    by_document: bool,
    facts: dict[str, str],
    notes: tuple[str, ...],
) -> ImportedFile:
    """What both kinds of file come to."""
    own = {"normalised": "yes" if normalised else "no"}
    if dictionary_size is not None:
        own["dictionary size"] = str(dictionary_size)
    said = [*notes]
    if not by_document:
        said.append("the file does not say which document each window belongs to: windows are the clusters")
    if not normalised:
        said.append(
            "the file says that its rows are not normalised: kl.topk-tail, kl.topk-lower and the entropies of K "
            "entries are left out"
        )
    return ImportedFile(
        format=FORMAT,
        kind=KIND,
        path=source.path,
        sha256=source.sha256,
        table=table,
        top_k=top_k,
        convention=CONVENTION,
        cluster="document" if by_document else "window",
        windows=windows,
        facts={key: value for key, value in facts.items() if key not in own} | own,
        notes=tuple(said),
        divergence="kl.topk-shared",
    )
