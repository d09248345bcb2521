"""SQL that a model wrote, run in a database in memory that holds a fixture and nothing else.

Neither side is trusted. An authorizer lets a query select, read and call built-in functions and refuses all else before
anything is run: no file is attached, written or loaded. Steps, processor time, rows, and the length of values, patterns
and statements are bounded, so that every query comes to an end.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from drift_runs.generate.values import shortened

STEPS = 250_000
"""Of SQLite's virtual machine, about: a join of three tables of 25 rows takes 100,000."""
STEPS_AT_ONCE = 10
"""Between two looks at the clock: one step may be a search through a whole value."""
LIMIT_S = 5.0
"""Processor time of one fixture or query: a sound one takes about a millisecond."""
ROWS = 1_000
VALUE_BYTES = 10_000
"""Of a text, blob or row: a value can be made long by one step, and a row can be kept by another."""
STATEMENT_BYTES = 10_000
FIXTURE_BYTES = 1_000_000

_QUERY = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_FIXTURE = _QUERY | {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_REINDEX,  # what an index is filled by
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_TRANSACTION,
}
_REFUSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
_UNBOUNDED_FUNCTIONS = frozenset({"printf", "format"})
"""One step of these can write two thousand million characters to nowhere, and no limit of SQLite ends it."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: STATEMENT_BYTES,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,  # VACUUM INTO attaches the file that it writes
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

Row = tuple[object, ...]
Given = TypeVar("Given")


class Refused(Exception):
    """A query or fixture that gave no rows, and why: the database's own words where it has some."""


class Unbounded(Refused):
    """A query that may be sound, and that calls a function whose time cannot be bounded."""


@dataclass(slots=True)
class _Clock:
    """A progress handler that ends what takes too long."""

    ends_s: float
    looks: int = STEPS // STEPS_AT_ONCE
    why: str = ""

    def __call__(self) -> bool:
        self.looks -= 1
        if self.looks < 0:
            self.why = f"takes more than {STEPS:,} steps"
        elif time.thread_time() > self.ends_s:
            self.why = f"takes more than {LIMIT_S:g} s"
        return bool(self.why)


def query_rows(query: str, fixture: str) -> list[Row]:
    """The rows of one query over a fresh database that ``fixture`` (SQL) has filled.

    A number that is no integer is rounded to 12 significant digits: a sum in another order is the same sum. Raises
    ``Refused`` for what is no single query, for everything that a query may not do, and beyond every limit;
    ``Unbounded`` where a sound query could not be told from an endless one.
    """
    database = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
    try:
        # Temporary tables of a sort would else be files.
        database.execute("PRAGMA temp_store = MEMORY")
        database.execute("PRAGMA trusted_schema = OFF")
        for limit, value in _LIMITS.items():
            database.setlimit(limit, value)
        database.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, FIXTURE_BYTES)
        _bounded(database, lambda: database.executescript(fixture), _FIXTURE, "the fixture")
        database.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, STATEMENT_BYTES)
        return _bounded(database, lambda: _fetched(database, query), _QUERY, "the query")
    finally:
        database.close()


def _fetched(database: sqlite3.Connection, query: str) -> list[Row]:
    cursor = database.execute(query)
    if cursor.description is None:
        raise Refused("no query: it gives no columns")
    rows = cursor.fetchmany(ROWS + 1)
    if len(rows) > ROWS:
        raise Refused(f"the query gives more than {ROWS:,} rows")
    return [tuple(map(_rounded, row)) for row in rows]


def _bounded(database: sqlite3.Connection, work: Callable[[], Given], allowed: frozenset[int], what: str) -> Given:
    """What ``work`` gives, under the authorizer and within the limits."""

    unbounded: list[str] = []

    def authorize(action: int, _one: str | None, other: str | None, *_place: str | None) -> int:
        # Of a function the second text is the name; the first is empty.
        function = str(other).lower() if action == sqlite3.SQLITE_FUNCTION else ""
        if function in _UNBOUNDED_FUNCTIONS:
            unbounded.append(function)
        refused = action not in allowed or function in _REFUSED_FUNCTIONS | _UNBOUNDED_FUNCTIONS
        return sqlite3.SQLITE_DENY if refused else sqlite3.SQLITE_OK

    clock = _Clock(time.thread_time() + LIMIT_S)
    database.set_authorizer(authorize)
    database.set_progress_handler(clock, STEPS_AT_ONCE)
    try:
        return work()
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
        if unbounded:
            raise Unbounded(f"{what} calls {unbounded[0]}, whose time cannot be bounded") from None
        raise Refused(f"{what} {clock.why}" if clock.why else shortened(f"{what}: {error}", 200)) from None
    finally:
        database.set_progress_handler(None, 0)
        database.set_authorizer(None)


def _rounded(value: object) -> object:
    return float(f"{value:.12g}") if isinstance(value, float) else value


def rows_difference(found: list[Row], expected: list[Row], *, ordered: bool) -> str:
    """Why rows are not the expected ones; empty where they are. Unordered, they are compared as multisets."""
    here, there = Counter(found), Counter(expected)
    if here != there:
        parts = [f"{len(found):,} rows, expected {len(expected):,}"]
        for rows, more, what in ((here - there, "unexpected", "not expected"), (there - here, "missing", "missing")):
            if rows:
                others = rows.total() - 1
                parts.append(
                    f"{what}: {shortened(repr(next(iter(rows))))}" + (f" and {others} {more}" if others else "")
                )
        return "; ".join(parts)
    if ordered and found != expected:
        at = next(at for at, row in enumerate(found) if row != expected[at])
        return (
            f"the expected rows in another order: row {at + 1} is {shortened(repr(found[at]))}, "
            f"expected {shortened(repr(expected[at]))}"
        )
    return ""
