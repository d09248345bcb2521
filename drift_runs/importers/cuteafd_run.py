"""``cuteafd-run``: records of a CuteAFD fidelity run (``cuteafd.fidelity.run/2``), one a position.

No file of this format is public. What is read here was built from its list of fields: window, block, bucket, role,
position, agree, confident, kl, nll, ref_nll, argmax, reference_argmax. What a field means beyond its name is said in
the notes as an assumption, and what contradicts the names is refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from drift_runs.errors import ImportFileError, one_line
from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.csv_positions import NAME_LIMIT_CHARACTERS, spans
from drift_runs.importers.source import WINDOWS_LIMIT, Foreign, Source, fitted, json_lines, json_value, read_source
from drift_runs.measure.sentinels import LARGEST_KL_NATS, is_sentinel
from drift_runs.schema import COMPARISON, RowFlag

FORMAT = "cuteafd-run"
KIND = "comparison"
HELP = "records of a CuteAFD fidelity run: JSON or JSON lines of schema cuteafd.fidelity.run/2"
SCHEMA = "cuteafd.fidelity.run/2"
EQUAL_FACTS = ("schema",)
CONVENTION = (
    "position is taken for the number of tokens of history, so that position t predicts token t: an assumption, "
    "because the format's description does not say it"
)
SHAPE = (
    f'{{"schema": "{SCHEMA}", "records": [...]}}, or JSON lines that start with {{"schema": "{SCHEMA}"}} and go on '
    "with one record a line"
)
LARGEST = 2**31 - 1
LEAST_KL = -1e-3
"""A divergence below zero by more than rounding is none."""

Id = Annotated[int, Field(ge=0, le=LARGEST)]
Label = str | int


class Record(Foreign):
    window: Label
    block: Label
    bucket: Label
    role: Literal["prompt", "generated"]
    position: Annotated[int, Field(le=LARGEST)]
    agree: bool
    confident: bool
    kl: float | None
    nll: float | None
    ref_nll: float | None
    argmax: Id
    reference_argmax: Id


class Run:
    """Collects the records of one file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "window",
                "position",
                "role",
                "kl_full_nats",
                "flip",
                "reference_top",
                "candidate_top",
                "reference_nll_nats",
                "candidate_nll_nats",
                "dp",
                "flags",
            )
        }
        self.seen: set[tuple[str, int]] = set()
        self.roles: dict[str, Literal["prompt", "generated"]] = {}
        self.blocks: dict[str, set[str]] = {}
        self.buckets: dict[str, set[str]] = {}
        self.scored: dict[str, list[int]] = {}
        self.unknown: Counter[str] = Counter()
        self.absent: Counter[str] = Counter()
        self.sentinels = 0
        self.confident = 0

    def add(self, at: str, content: Any) -> None:
        if not isinstance(content, dict):
            self.source.refuse("the record is no object", at=at, expected="an object with " + ", ".join(FIELDS))
        self.unknown.update(key for key in content if key not in FIELDS)
        record = fitted(self.source, content, Record, at=at)
        window, block, bucket = (self.label(at, name, getattr(record, name)) for name in ("window", "block", "bucket"))
        at = f"{at}, window {window!r} position {record.position}"
        if record.position < 1:
            self.source.refuse(
                f"position {record.position}",
                at=at,
                expected="1 or more: the first token of a stream has no prediction, so the file counts otherwise",
            )
        if (window, record.position) in self.seen:
            self.source.refuse("the position stands twice in its window", at=at)
        if record.agree != (record.argmax == record.reference_argmax):
            self.source.refuse(
                f"agree is {str(record.agree).lower()}, argmax {record.argmax}, "
                f"reference_argmax {record.reference_argmax}",
                at=at,
                expected="agree where the two are equal, and only there",
            )
        self.seen.add((window, record.position))
        self.roles.setdefault(window, record.role)
        self.blocks.setdefault(window, set()).add(block)
        self.buckets.setdefault(window, set()).add(bucket)
        self.scored.setdefault(window, []).append(record.position)
        if len(self.scored) > WINDOWS_LIMIT:
            self.source.refuse(f"more than {WINDOWS_LIMIT:,} windows", at=at)
        self.confident += record.confident
        self.take(at, window, record)

    def label(self, at: str, name: str, value: Label) -> str:
        text = str(value)
        if len(text) > NAME_LIMIT_CHARACTERS or one_line(text) != text or (name == "window" and not text):
            self.source.refuse(f"{name} {text[:40]!r}", at=at, expected=f"1 to {NAME_LIMIT_CHARACTERS} letters")
        return text

    def take(self, at: str, window: str, record: Record) -> None:
        flags = 0
        nlls: dict[str, float | None] = {}
        for name in ("nll", "ref_nll"):
            value = getattr(record, name)
            if value is not None and is_sentinel(-value):
                self.sentinels += 1
                flags |= RowFlag.SENTINEL
                value = None
            elif value is None:
                self.absent[name] += 1
            elif value < LEAST_KL:
                self.source.refuse(f"{name} is {value:g}", at=at, expected="minus a log-probability, 0 or more")
            nlls[name] = value
        if record.kl is None:
            self.absent["kl"] += 1
        elif record.kl < LEAST_KL:
            self.source.refuse(f"kl is {record.kl:g}", at=at, expected="a divergence in nats, 0 or more")
        elif record.kl > LARGEST_KL_NATS:
            self.source.refuse(
                f"kl is {record.kl:g}", at=at, expected=f"a divergence of at most {LARGEST_KL_NATS:,.0f} nats"
            )
        nll, reference_nll = nlls["nll"], nlls["ref_nll"]
        both = nll is not None and reference_nll is not None
        row = {
            "window": window,
            "position": record.position,
            "role": record.role,
            "kl_full_nats": record.kl,
            "flip": not record.agree,
            "reference_top": record.reference_argmax,
            "candidate_top": record.argmax,
            "reference_nll_nats": reference_nll,
            "candidate_nll_nats": nll,
            "dp": math.exp(-nll) - math.exp(-reference_nll) if both else None,
            "flags": flags,
        }
        for name, value in row.items():
            self.columns[name].append(value)

    def table(self) -> pa.Table:
        count = len(self.seen)
        return pa.table(
            {
                field.name: pa.array(self.columns[field.name], field.type)
                if field.name in self.columns
                else pa.nulls(count, field.type)
                for field in COMPARISON
            },
            schema=COMPARISON,
        )

    @property
    def blocks_are_documents(self) -> bool:
        """False where a block is a part of a window: then it cannot be what windows belong to."""
        return all(len(blocks) == 1 for blocks in self.blocks.values())

    @property
    def buckets_are_groups(self) -> bool:
        return all(len(buckets) == 1 for buckets in self.buckets.values())

    def windows(self) -> tuple[ImportedWindow, ...]:
        return tuple(
            ImportedWindow(
                name=window,
                document=next(iter(self.blocks[window])) if self.blocks_are_documents else window,
                group=next(iter(self.buckets[window])) if self.buckets_are_groups else "",
                role=role,
                scored=spans(self.scored[window]),
            )
            for window, role in self.roles.items()
        )

    def notes(self) -> tuple[str, ...]:
        count = len(self.seen)
        notes = [
            "kl is taken for kl.full in nats and nll for minus the log-probability of the actual token: assumptions, "
            "because the format's description does not define them",
            f"confident is set in {self.confident:,} of {count:,} records; its limits are not known, so it is counted "
            "and used nowhere",
            "which token stands at a position, and how many best tokens are tied, is not in this format",
        ]
        if not self.blocks_are_documents:
            notes.append("block changes inside a window, so windows are the clusters and not blocks")
        elif len({block for blocks in self.blocks.values() for block in blocks}) == 1:
            notes.append("all windows lie in one block: an interval over blocks cannot be given")
        if not self.buckets_are_groups:
            notes.append("bucket changes inside a window, so it is no group of windows: left out")
        if self.sentinels:
            notes.append(f"{self.sentinels:,} values of nll or ref_nll stand for 'not known': left out")
        notes += [f"values of {name} that are null, left out: {found:,}" for name, found in sorted(self.absent.items())]
        notes += [f"key {key!r} of {found:,} records was not read" for key, found in sorted(self.unknown.items())]
        return tuple(notes)


FIELDS = tuple(Record.model_fields)


def read(path: Path) -> ImportedFile:
    """A candidate's positions, schema ``COMPARISON``; ``ImportFileError`` with the record for what does not fit."""
    source = read_source(path)
    run = Run(source)
    header, records = parts_of(source)
    for at, content in records:
        run.add(at, content)
    if not run.seen:
        source.refuse("no records", expected=SHAPE)
    facts = {"schema": SCHEMA}
    facts |= {
        one_line(key): one_line(str(value)) for key, value in header.items() if isinstance(value, str | int | float)
    }
    return ImportedFile(
        format=FORMAT,
        kind=KIND,
        path=path,
        sha256=source.sha256,
        table=run.table(),
        top_k=None,
        convention=CONVENTION,
        cluster="document" if run.blocks_are_documents else "window",
        windows=run.windows(),
        facts=facts,
        notes=run.notes(),
        divergence="kl.full",
    )


def parts_of(source: Source) -> tuple[dict[str, Any], Iterator[tuple[str, Any]]]:
    """What the file says of itself, and (place, record) of each record."""
    if is_lines(source):
        lines = json_lines(source)
        number, header = next(lines)
        check_schema(source, header, f"line {number}")
        return header, ((f"line {number}", content) for number, content in lines)
    content = json_value(source, source.data)
    check_schema(source, content, "")
    records = content.get("records")
    if not isinstance(records, list):
        source.refuse("'records' is no array" if "records" in content else "no key 'records'", expected=SHAPE)
    rest = {key: value for key, value in content.items() if key != "records"}
    return rest, ((f"records[{index}]", record) for index, record in enumerate(records))


def is_lines(source: Source) -> bool:
    """Whether the first line is a whole header of its own, without records in it."""
    first, _, rest = source.data.strip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        header = json_value(source, first)
    except ImportFileError:  # the first line of an object over several lines
        return False
    return not (isinstance(header, dict) and "records" in header)


def check_schema(source: Source, content: Any, at: str) -> None:
    found = content.get("schema") if isinstance(content, dict) else None
    if found != SCHEMA:
        what = "no schema is named" if found is None else f"schema {str(found)[:60]!r}"
        source.refuse(what, at=at, expected=SHAPE)
