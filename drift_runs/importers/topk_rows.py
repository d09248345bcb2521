"""``topk-rows``: the best K entries of a server at the positions of a forced continuation, one JSON file an arm.

A row of the file is a prompt and the tokens that were forced after it. At ``context_len`` tokens of history the server
said its best tokens (``dist``, natural log-probabilities by token id), its choice (``argmax_id``) and which token was
forced next (``forced_next_id``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import Field

from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.source import WINDOWS_LIMIT, Foreign, Source, parse_json, read_source
from drift_runs.measure.determinism import row_top_hash
from drift_runs.measure.resampler import plural
from drift_runs.measure.sentinels import WORDS, is_sentinel
from drift_runs.schema import ROWS, RowFlag

FORMAT = "topk-rows"
KIND = "rows"
HELP = "teacher-forced best-K rows of a server: JSON with rows, positions and a log-probability by token id"
EQUAL_FACTS = ("schema", "probe set sha256")
CONVENTION = (
    "context_len counts the tokens of history: read as the position t that predicts token t from the t before it"
)

LARGEST_ID = 2**31 - 1
ABOVE_ZERO = 1e-3
"""Rounding, or a server's constant offset, can lift a log-probability above 0; by more it is something else."""
MASS_LIMIT = 1.01
MASS_NOTED = 1e-5

TokenId = Annotated[int, Field(ge=0, le=LARGEST_ID)]
Count = Annotated[int, Field(ge=0, le=LARGEST_ID)]


class Position(Foreign):
    j: Count
    context_len: Annotated[int, Field(ge=1, le=LARGEST_ID)]
    argmax_id: TokenId
    forced_next_id: TokenId
    dist: dict[str, float]


class Row(Foreign):
    id: str
    bucket: int | str = ""
    n_tokens_server_tokenize: Count | None = None
    ids_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    forced_continuation_ids: list[TokenId] | None = None
    positions: list[Position]


class Server(Foreign):
    models: dict | None = None


class Document(Foreign):
    schema_: Annotated[str, Field(alias="schema")] = ""
    arm: str = ""
    pass_label: str = ""
    seed: int | None = None
    topk_requested: Annotated[int, Field(ge=1, le=1024)]
    positions_with_fewer_than_topk_entries: Count | None = None
    forced_continuations_from: str = ""
    probe_set_sha256: str = ""
    server: Server = Server()
    rows: list[Row]


@dataclass(slots=True)
class Tally:
    """What the notes count."""

    short: int = 0
    returned_short: int = 0
    """The same before anything was left out."""
    sentinels: int = 0
    sentinel_rows: int = 0
    rounded: int = 0
    beyond: int = 0
    heavy: int = 0
    largest_mass: float = 0.0


def read(path: Path) -> ImportedFile:
    """One arm's rows, schema ``ROWS``; ``ImportFileError`` with file and row for anything that contradicts itself."""
    source = read_source(path)
    document = parse_json(source, Document)
    top_k = document.topk_requested
    if not 1 <= len(document.rows) <= WINDOWS_LIMIT:
        source.refuse(f"{len(document.rows):,} rows", at="rows", expected=f"1 to {WINDOWS_LIMIT:,} rows")
    tally = Tally()
    columns: dict[str, list] = {name: [] for name in ROWS.names}
    windows = []
    seen: set[str] = set()
    for index, row in enumerate(document.rows):
        at = f"rows[{index}] {row.id!r}"
        if row.id in seen:
            source.refuse("the id is given to two rows", at=at)
        if not row.id or not row.positions:
            source.refuse("no positions" if row.id else "the id is empty", at=at)
        seen.add(row.id)
        check_positions(source, at, row)
        for position in row.positions:
            add_position(source, f"{at} position {position.context_len}", row.id, position, top_k, columns, tally)
        first, last = row.positions[0].context_len, row.positions[-1].context_len
        windows.append(
            ImportedWindow(
                name=row.id,
                document=row.id,
                group=str(row.bucket),
                role="generated",
                scored=((first, last + 1),),
                tokens_sha256=row.ids_sha256 or "",
            )
        )
    said = document.positions_with_fewer_than_topk_entries
    if said is not None and said != tally.returned_short:
        source.refuse(
            f"the file says that {said} positions have fewer than {top_k} entries, and {tally.returned_short} have",
            at="positions_with_fewer_than_topk_entries",
        )
    return ImportedFile(
        format=FORMAT,
        kind=KIND,
        path=path,
        sha256=source.sha256,
        table=pa.table(columns, schema=ROWS),
        top_k=top_k,
        convention=CONVENTION,
        cluster="window",
        windows=tuple(windows),
        facts=facts_of(document),
        notes=notes_of(tally, top_k),
        divergence="kl.topk-shared",
    )


def check_positions(source: Source, at: str, row: Row) -> None:
    """Positions follow each other, and agree with the prompt's length and with the forced tokens."""
    start = row.positions[0].context_len - row.positions[0].j
    said = row.n_tokens_server_tokenize
    if said is not None and said != start:
        source.refuse(
            f"the prompt has {said} tokens, and the first position {start} of history",
            at=at,
            expected="context_len = n_tokens_server_tokenize + j",
        )
    for place, position in enumerate(row.positions):
        here = f"{at} position {position.context_len}"
        if position.j != row.positions[0].j + place or position.context_len != start + position.j:
            source.refuse(
                f"j is {position.j} and context_len {position.context_len}",
                at=f"{at} positions[{place}]",
                expected=f"j {row.positions[0].j + place} and context_len {row.positions[0].context_len + place}",
            )
        forced = row.forced_continuation_ids
        if forced is not None and (position.j >= len(forced) or forced[position.j] != position.forced_next_id):
            source.refuse(
                f"forced_next_id {position.forced_next_id} is not token {position.j} of forced_continuation_ids",
                at=here,
            )


def add_position(
    source: Source, at: str, window: str, position: Position, top_k: int, columns: dict[str, list], tally: Tally
) -> None:
    """Append one row of ``ROWS``."""
    entries = entries_of(source, at, position.dist)
    flags = 0
    tally.returned_short += len(entries) < top_k
    known = {token: value for token, value in entries.items() if not is_sentinel(value)}
    if len(known) < len(entries):
        flags |= RowFlag.SENTINEL
        tally.sentinels += len(entries) - len(known)
        tally.sentinel_rows += 1
    tally.rounded += sum(float(np.float32(value)) != value for value in known.values())
    best = sorted(known, key=lambda token: (-np.float32(known[token]), token))
    if len(best) > top_k:
        tally.beyond += 1
    top = best[:top_k]
    if len(top) < top_k:
        flags |= RowFlag.SHORT
        tally.short += 1
    values = [np.float32(known[token]) for token in top]
    ties = sum(value == values[0] for value in values)
    if top and position.argmax_id not in top[:ties]:
        source.refuse(
            f"argmax_id {position.argmax_id} is not the best entry",
            at=at,
            expected=f"{top[0]}" if ties == 1 else "one of " + ", ".join(map(str, top[:ties])),
        )
    mass = math.fsum(math.exp(value) for value in values)
    if mass > MASS_LIMIT:
        source.refuse(f"the entries sum to a probability of {mass:.4g}", at=at, expected="natural log-probabilities")
    if mass > 1 + MASS_NOTED:
        tally.heavy += 1
        tally.largest_mass = max(tally.largest_mass, mass)
    token = position.forced_next_id
    columns["window"].append(window)
    columns["position"].append(position.context_len)
    columns["role"].append("generated")
    columns["token"].append(token)
    columns["logprob"].append(known.get(token))
    # A token that the server appended beyond its K best has a log-probability and no known rank.
    rank = 1 + sum(value > known[token] for value in known.values()) if token in top else None
    columns["rank"].append(rank)
    columns["top_ids"].append(top)
    columns["top_logprobs"].append(values)
    for absent in ("wanted_ids", "wanted_logprobs", "tail_logprob", "padding_mass", "entropy_nats", "row_full"):
        columns[absent].append(None)
    columns["tie_count"].append(ties)
    columns["p1"].append(math.exp(values[0]) if values else None)
    hashed = row_top_hash(np.array(top, np.int32), np.array(values, np.float32), position.context_len, top_k)
    columns["row_top"].append(hashed if top else None)
    columns["flags"].append(flags if top else flags | RowFlag.UNHASHABLE)


def entries_of(source: Source, at: str, dist: dict[str, float]) -> dict[int, float]:
    """Log-probabilities by id. JSON keys are texts, so '12' and '012' could be one id under two names."""
    entries: dict[int, float] = {}
    for key, value in dist.items():
        if not (key.isascii() and key.isdigit()) or (len(key) > 1 and key[0] == "0") or len(key) > 10:
            source.refuse(f"{key[:40]!r} is no token id", at=at, expected="a whole number in plain digits")
        token = int(key)
        if token > LARGEST_ID:
            source.refuse(f"token id {token} is too large", at=at, expected=f"at most {LARGEST_ID}")
        if value > ABOVE_ZERO:
            source.refuse(f"token {token} has a log-probability of {value:.6g}", at=at, expected="0 or less")
        entries[token] = value
    return entries


def facts_of(document: Document) -> dict[str, str]:
    facts = {
        "schema": document.schema_,
        "arm": document.arm,
        "pass": document.pass_label,
        "seed": "" if document.seed is None else str(document.seed),
        "probe set sha256": document.probe_set_sha256,
        "continuations from": document.forced_continuations_from,
    }
    listed = (document.server.models or {}).get("data")
    model = listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], dict) else {}
    facts |= {
        f"model {key}": str(model[key]) for key in ("root", "max_model_len", "owned_by", "created") if key in model
    }
    return {key: value for key, value in facts.items() if value}


def notes_of(tally: Tally, top_k: int) -> tuple[str, ...]:
    notes = [f"a row holds the best {top_k} entries: nothing is known of the rest but its mass, if both sides sum to 1"]
    if tally.sentinels:
        notes.append(
            f"log-probabilities that stand for 'not known' ({WORDS}), left out: {tally.sentinels} in "
            f"{plural(tally.sentinel_rows, 'row')}"
        )
    if tally.short:
        notes.append(f"rows with fewer than {top_k} entries: {tally.short}")
    if tally.beyond:
        notes.append(
            f"rows with more than {top_k} entries, of which the best {top_k} are compared and the forced token is kept "
            f"apart: {tally.beyond}"
        )
    if tally.heavy:
        notes.append(
            f"rows whose entries sum to more than 1, so that bounds from them do not hold: {tally.heavy}, by up to "
            f"{tally.largest_mass - 1:.2g}"
        )
    if tally.rounded:
        notes.append(f"log-probabilities that were rounded to 32 bits: {tally.rounded}")
    return tuple(notes)
