"""The Parquet side of ``rows``: a table of schema ``ROWS``, checked before it is believed.

Metadata of the file may say more (all optional): ``drift.top_k``, ``drift.normalised`` (``yes`` or ``no``),
``drift.dictionary_size``, and ``drift.windows``, a JSON array of ``{"name", "document", "group", "role"}``.
"""

from __future__ import annotations

import io
import math
from typing import Annotated, Literal, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from drift_runs import schema
from drift_runs.importers.base import ImportedFile
from drift_runs.importers.plain_rows import (
    ABOVE_ZERO,
    EQUAL_NATS,
    HIGHEST_MASS,
    LARGEST,
    LARGEST_K,
    Strict,
    imported,
    windows_of,
)
from drift_runs.importers.source import WINDOWS_LIMIT, Source, fitted, json_value
from drift_runs.measure.sentinels import BELOW, EXACT

ROUNDED_MASS = 1e-5
"""Above 1: what 32 bits an entry can add up to, beside ``EQUAL_NATS``."""


class Window(Strict):
    name: Annotated[str, Field(min_length=1)]
    document: Annotated[str, Field(min_length=1)] | None = None
    group: str = ""
    role: Literal["prompt", "generated"] | None = None


class Windows(Strict):
    windows: list[Window]


def read_parquet(source: Source) -> ImportedFile:
    """One arm's rows; ``ImportFileError`` with the first row that cannot be trusted."""
    table, metadata = rows_table(source)
    top_k = number_of(source, metadata, "drift.top_k", LARGEST_K)
    dictionary = number_of(source, metadata, "drift.dictionary_size", LARGEST)
    said = metadata.get("drift.normalised", "yes")
    if said not in ("yes", "no"):
        source.refuse(f"drift.normalised {said[:40]!r}", at="metadata", expected="yes or no")
    normalised = said == "yes"
    lengths = check_lists(source, table)
    longest = int(lengths.max())
    if top_k is not None and longest > top_k:
        source.refuse(f"{longest} entries in a row", at="top_ids", expected=f"at most drift.top_k = {top_k}")
    check_entries(source, table, lengths, dictionary, normalised)
    check_positions(source, table)
    declared = declared_windows(source, metadata)
    scored: dict[str, list[int]] = {}
    roles: dict[str, str] = {}
    for window, position, role in zip(
        *(table[name].to_pylist() for name in ("window", "position", "role")), strict=True
    ):
        scored.setdefault(window, []).append(position)
        roles.setdefault(window, role)
    if len(scored) > WINDOWS_LIMIT:
        source.refuse(f"more than {WINDOWS_LIMIT:,} windows", at="window")
    if missing := [name for name in declared if name not in scored]:
        source.refuse(f"window {missing[0]!r} has no row", at="metadata drift.windows")
    places = {}
    for window in scored:
        said_of = declared.get(window)
        document = said_of.document if said_of is not None and said_of.document else window
        places[window] = (document, said_of.group if said_of is not None else "", roles[window])
    by_document = all(window in declared and declared[window].document for window in scored)
    short = int(np.count_nonzero(lengths < (top_k or longest)))
    return imported(
        source,
        flagged(table, lengths, top_k or longest),
        top_k=top_k or longest,
        normalised=normalised,
        dictionary_size=dictionary,
        windows=tuple(windows_of(places, scored)),
        by_document=by_document,
        facts={},
        notes=(f"{short:,} rows have fewer than {top_k or longest} entries",) if short else (),
    )


def rows_table(source: Source) -> tuple[pa.Table, dict[str, str]]:
    """The table in schema ``ROWS``, and what the file's metadata says in keys that start with ``drift.``."""
    try:
        table = pq.ParquetFile(io.BytesIO(source.data)).read()
        table.validate(full=True)  # lists that end outside their values, texts that are none
        table.column_names  # noqa: B018  names that are no texts
    except (pa.ArrowException, OSError, ValueError) as error:
        source.refuse(f"not readable as Parquet: {str(error).partition(chr(10))[0]}", expected="a whole file")
    metadata = {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (table.schema.metadata or {}).items()
        if key.startswith(b"drift.")
    }
    found = schema.version_of(table.schema)
    if (newer := schema.upgraded(table, schema.ROWS)) is not None:
        table = newer
    elif found != schema.version_of(schema.ROWS):
        source.refuse(
            f"schema {found[:60]!r}" if found else "no drift.schema in the metadata",
            expected=schema.version_of(schema.ROWS),
        )
    if table.column_names != schema.ROWS.names:
        odd = sorted(set(table.column_names) ^ set(schema.ROWS.names)) or table.column_names
        source.refuse(f"columns differ at {', '.join(odd[:3])}", expected="the columns of " + found)
    try:
        table = table.cast(schema.ROWS)
    except (pa.ArrowException, ValueError) as error:
        source.refuse(f"a column has another type: {str(error).splitlines()[0]}", expected="the types of " + found)
    for field in schema.ROWS:
        if not field.nullable and table[field.name].null_count:
            source.refuse(f"{table[field.name].null_count} nulls", at=field.name, expected="a value in every row")
    if not table.num_rows:
        source.refuse("no rows")
    return table.combine_chunks(), metadata


def number_of(source: Source, metadata: dict[str, str], key: str, largest: int) -> int | None:
    if key not in metadata:
        return None
    text = metadata[key]
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= largest):
        source.refuse(f"{key} {text[:40]!r}", at="metadata", expected=f"a whole number from 1 to {largest}")
    return int(text)


def declared_windows(source: Source, metadata: dict[str, str]) -> dict[str, Window]:
    text = metadata.get("drift.windows")
    if text is None:
        return {}
    at = "metadata drift.windows"
    content = {"windows": json_value(source, text.encode(), at=at)}
    found = fitted(source, content, Windows, at=at).windows
    by_name = {window.name: window for window in found}
    if len(by_name) != len(found):
        source.refuse("a window is described twice", at=at)
    return by_name


def check_lists(source: Source, table: pa.Table) -> np.ndarray:
    """Lengths of the lists of best entries: int64[n], both columns alike."""
    lengths = [pc.list_value_length(table[name]).to_numpy().astype(np.int64) for name in ("top_ids", "top_logprobs")]
    unequal = np.flatnonzero(lengths[0] != lengths[1])
    if len(unequal):
        at_row(source, unequal[0], f"{lengths[0][unequal[0]]} ids and {lengths[1][unequal[0]]} log-probabilities", "")
    empty = np.flatnonzero(lengths[0] == 0)
    if len(empty):
        at_row(source, empty[0], "no entries", "one or more")
    return lengths[0]


def check_entries(
    source: Source, table: pa.Table, lengths: np.ndarray, dictionary: int | None, normalised: bool
) -> None:
    """Ids distinct and inside the dictionary; log-probabilities finite, ordered, and no more than 1 together."""
    ids = pc.list_flatten(table["top_ids"]).to_numpy()
    values = pc.list_flatten(table["top_logprobs"])
    if values.null_count:
        source.refuse(f"{values.null_count} nulls", at="top_logprobs", expected="a number in every entry")
    values = values.to_numpy().astype(np.float64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    limit = LARGEST if dictionary is None else dictionary - 1
    highest = EQUAL_NATS if normalised else ABOVE_ZERO
    for wrong, what, expected in (
        ((ids < 0) | (ids > limit), "a token id outside the dictionary", f"0 to {limit}"),
        (~np.isfinite(values), "NaN or infinity among the log-probabilities", "finite numbers"),
        ((values <= BELOW) | (values == EXACT), "a log-probability that stands for 'not known'", "an entry less"),
        (values > highest, "a log-probability above 0", "0 or less"),
    ):
        if wrong.any():
            at_row(source, row[np.flatnonzero(wrong)[0]], what, expected)
    same_row = row[1:] == row[:-1]
    unordered = same_row & ((values[1:] > values[:-1]) | ((values[1:] == values[:-1]) & (ids[1:] <= ids[:-1])))
    if unordered.any():
        at_row(source, row[1:][unordered][0], "the entries are not ordered", "by (-log-probability, id)")
    order = np.lexsort((ids, row))
    twice = (row[order][1:] == row[order][:-1]) & (ids[order][1:] == ids[order][:-1])
    if twice.any():
        at_row(source, row[order][1:][twice][0], "a token stands twice", "distinct ids")
    mass = np.bincount(row, weights=np.exp(values), minlength=len(lengths))
    heavy = np.flatnonzero(mass > (1 + EQUAL_NATS + ROUNDED_MASS if normalised else HIGHEST_MASS))
    if len(heavy):
        at_row(source, heavy[0], f"the entries sum to a probability of {mass[heavy[0]]:.9g}", "at most 1")
    tail = table["tail_logprob"].to_numpy().astype(np.float64)
    whole = mass + np.exp(np.where(np.isnan(tail), -math.inf, np.minimum(tail, 1.0)))
    wrong = ~np.isnan(tail) & (np.abs(whole - 1) > 1e-3)
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        at_row(source, index, f"entries and tail sum to a probability of {whole[index]:.9g}", "1")
    if not normalised and not np.isnan(tail).all():
        at_row(source, int(np.flatnonzero(~np.isnan(tail))[0]), "a tail in a file that is not normalised", "null")


def check_positions(source: Source, table: pa.Table) -> None:
    positions = table["position"].to_numpy()
    if (positions < 1).any():
        at_row(source, int(np.flatnonzero(positions < 1)[0]), "position below 1", "1 or more")
    tokens = table["token"].to_numpy()
    if (tokens < 0).any():
        at_row(source, int(np.flatnonzero(tokens < 0)[0]), "a token id below 0", "0 or more")
    window = table["window"].combine_chunks().dictionary_encode()
    codes = (window.indices if isinstance(window, pa.DictionaryArray) else window).to_numpy(zero_copy_only=False)
    keys = codes.astype(np.int64) << 32 | positions.astype(np.int64)
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(twice):
        at_row(source, int(order[twice[0] + 1]), "the position stands twice in its window", "once")
    roles = set(pc.unique(table["role"].cast(pa.string())).to_pylist())
    if odd := sorted(roles - {"prompt", "generated"}):
        source.refuse(f"role {odd[0][:40]!r}", at="role", expected="prompt or generated")


def flagged(table: pa.Table, lengths: np.ndarray, top_k: int) -> pa.Table:
    """``SHORT`` where a row has fewer than K entries, whatever the file's flags say of it."""
    flags = table["flags"].to_numpy().astype(np.int32)
    flags = np.where(lengths < top_k, flags | schema.RowFlag.SHORT, flags).astype(np.int32)
    index = table.column_names.index("flags")
    return table.set_column(index, schema.ROWS.field("flags"), pa.array(flags))


def at_row(source: Source, row: int, what: str, expected: str) -> NoReturn:
    source.refuse(what, at=f"row {int(row)}", expected=expected)
