"""SQL of a model: right rows pass, and nothing it writes reaches beyond its own database or runs without end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.generate import checks_sql as module
from drift_runs.generate.checks import Checked, check
from drift_runs.generate.checks_sql import Refused, query_rows, rows_difference
from drift_runs.generate.future import Scene
from drift_runs.protocol.generation import Task

FIXTURE = """
CREATE TABLE host (id INTEGER PRIMARY KEY, name TEXT NOT NULL, port INTEGER, load REAL);
CREATE INDEX host_port ON host (port);
CREATE VIEW quiet AS SELECT name FROM host WHERE load < 0.25;
INSERT INTO host (name, port, load) VALUES ('a', 5432, 0.1), ('b', 80, 0.2), ('c', 80, 0.3);
UPDATE host SET name = 'a1' WHERE name = 'a';
"""
WANTED = "SELECT name FROM host WHERE port = 80 ORDER BY name"


def checked(answer: str, wanted: str = WANTED, *, fixture: str = FIXTURE, ordered: bool = False) -> Checked:
    task = Task(name="t", window="w", at=1, check="sql", expected=(wanted,), fixture=fixture, ordered=ordered)
    scene = Scene(
        history=(), dictionary=(), end_tokens=frozenset(), assistant="", tools=(), syntax="hermes", sql_dialect="sqlite"
    )
    return check(task, None, answer, scene, ended="turn")


def refused(query: str, fixture: str = FIXTURE) -> str:
    with pytest.raises(Refused) as found:
        query_rows(query, fixture)
    return str(found.value)


@pytest.mark.parametrize(
    "answer",
    [
        WANTED,
        "select h.name as n from host h where not port <> 80;",
        "```sql\nSELECT name FROM host WHERE port = 80; -- both\n```",
        "This lists them:\n```sql\nSELECT name FROM host WHERE port = 80\n```\nThey serve pages.",
        "WITH p AS (SELECT * FROM host WHERE port = 80) SELECT name FROM p ORDER BY name DESC",
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT 3 FROM n WHERE i < 3) SELECT name FROM n JOIN host ON id=i",
        "VALUES ('c'), ('b')",
    ],
)
def test_the_same_rows_in_any_order(answer):
    assert checked(answer) == Checked(True, "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            "SELECT name FROM host",
            "3 rows, expected 2; not expected: ('a1',)",
        ),
        ("SELECT name FROM host WHERE port = 80 LIMIT 1", "1 rows, expected 2; missing: ('c',)"),
        (
            "SELECT name, port FROM host WHERE port = 80",
            "2 rows, expected 2; not expected: ('b', 80) and 1 unexpected; missing: ('b',) and 1 missing",
        ),
        ("SELECT nme FROM host", "the query: no such column: nme"),
        ("SELECT name FROM hosts", "the query: no such table: hosts"),
        ("SELEC name", 'the query: near "SELEC": syntax error'),
        ("", "no query: it gives no columns"),
        ("-- nothing", "no query: it gives no columns"),
        ("I cannot do that.", 'the query: near "I": syntax error'),
        ("SELECT ?", "the query: Incorrect number of bindings supplied"),
        ("SELECT cast(x'ff' AS TEXT)", "the query: Could not decode to UTF-8"),
        ("SELECT '\0'", "the query: the query contains a null character"),
    ],
)
def test_the_reason_quotes_the_database(answer, reason):
    found = checked(answer)
    assert found.passed is False and found.reason.startswith(reason)


def test_a_row_that_stands_twice_counts_twice():
    assert checked("SELECT DISTINCT port FROM host", "SELECT port FROM host").passed is False
    assert checked("SELECT 80 UNION ALL SELECT 80 UNION ALL SELECT 5432", "SELECT port FROM host").passed is True


def test_an_order_that_counts():
    found = checked("SELECT name FROM host WHERE port = 80 ORDER BY name DESC", ordered=True)
    assert found == Checked(False, "the expected rows in another order: row 1 is ('c',), expected ('b',)")
    assert checked(WANTED, ordered=True).passed is True


def test_numbers_by_value_and_sums_in_any_order():
    assert query_rows("SELECT 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1", "") == [(0.6, 0.6)]
    assert checked("SELECT 1.0", "SELECT 1").passed is True
    assert checked("SELECT '1'", "SELECT 1").passed is False
    assert checked("SELECT 1.00000001", "SELECT 1.0").passed is False
    assert checked("SELECT 9007199254740993", "SELECT 9007199254740992").passed is False
    assert checked("SELECT NULL", "SELECT NULL").passed is True


@pytest.mark.parametrize(
    "query",
    [
        "ATTACH '{path}' AS away",
        "ATTACH ':memory:' AS away",
        "VACUUM INTO '{path}'",
        "VACUUM",
        "PRAGMA table_info(host)",
        "PRAGMA writable_schema = ON",
        "SELECT * FROM pragma_table_info('host')",
        "SELECT load_extension('{path}')",
        "SELECT writefile('{path}', 'x')",
        "SELECT readfile('/etc/hostname')",
        "SELECT fts3_tokenizer('simple')",
        "CREATE TABLE away (x)",
        "CREATE TEMP TABLE away (x)",
        "CREATE VIRTUAL TABLE away USING fts5(x)",
        "DROP TABLE host",
        "ALTER TABLE host ADD COLUMN x",
        "INSERT INTO host (name) VALUES ('x')",
        "INSERT INTO host (name) VALUES ('x') RETURNING name",
        "UPDATE host SET port = 80",
        "DELETE FROM host",
        "UPDATE sqlite_master SET sql = ''",
        "BEGIN",
        "SAVEPOINT a",
        "ROLLBACK",
        "DETACH main",
        "REINDEX",
        "ANALYZE",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE host",
    ],
)
def test_a_query_selects_and_does_nothing_else(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "away.db"
    assert refused(query.format(path=path))
    assert checked(query.format(path=path)).passed is False
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fixture",
    [
        "ATTACH '{path}' AS away",
        "CREATE TABLE t (x); VACUUM INTO '{path}'",
        "PRAGMA temp_store_directory = '{path}'",
        "CREATE VIRTUAL TABLE t USING fts5(x)",
        "CREATE TABLE t (x); CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1; END",
        "SELECT load_extension('{path}')",
        "no SQL",
        "SELECT '\0'",
    ],
)
def test_a_fixture_is_not_trusted_either(fixture: str, tmp_path: Path):
    found = checked("SELECT 1", "SELECT 1", fixture=fixture.format(path=tmp_path / "away.db"))
    assert found.passed is None and found.reason.startswith("expected rows are not known: the fixture: ")
    assert list(tmp_path.iterdir()) == []


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (ENDLESS + "SELECT count(*) FROM n", "the query takes more than 20,000 steps"),
        (ENDLESS + "SELECT i FROM n ORDER BY i DESC", "the query takes more than 20,000 steps"),
        (ENDLESS + "SELECT i FROM n", "the query gives more than 1,000 rows"),
        (ENDLESS + "SELECT group_concat(hex(randomblob(4000))) FROM n", "the query takes more than 20,000 steps"),
        (
            "WITH RECURSIVE n(i) AS (SELECT 'ab' UNION ALL SELECT i || i FROM n) SELECT max(i) FROM n",
            "the query: string",
        ),
        ("SELECT count(*) FROM " + ", ".join(f"host h{at}" for at in range(20)), "the query takes more than"),
        ("SELECT zeroblob(1000000000)", "the query: string or blob too big"),
        ("SELECT 'a' LIKE '" + "%a" * 200 + "'", "the query: LIKE or GLOB pattern too complex"),
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000, "the query: "),
        ("SELECT " + "-" * 4_000 + "1", "the query: "),
        ("SELECT " + "- " * 4_000 + "1", "the query: "),
        ("SELECT 1" + " UNION SELECT 1" * 500, "the query: too many terms in compound SELECT"),
        ("SELECT " + ", ".join("1" * 200), "the query: too many columns in result set"),
        ("SELECT '" + "a" * 1_000_000 + "'", "the query: query string is too large"),
    ],
)
def test_a_query_comes_to_an_end(monkeypatch, query: str, reason: str):
    monkeypatch.setattr(module, "STEPS", 20_000)
    started = time.process_time()
    assert refused(query).startswith(reason)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("function", ["printf", "FORMAT"])
def test_a_function_that_nothing_bounds_is_not_called(function: str):
    query = f"SELECT {function}('%.2000000000c', 'a')"
    assert refused(query) == f"the query calls {function.lower()}, whose time cannot be bounded"
    # It may be right all the same: format('%.2f', load) is sound SQL.
    assert checked(query).passed is None


def test_a_query_that_is_slow_in_few_steps_is_ended_by_the_clock(monkeypatch):
    monkeypatch.setattr(module, "LIMIT_S", 0.05)
    long = "instr(zeroblob(4500 + i % 2) || x'01', zeroblob(4000) || x'02')"
    query = ENDLESS + f"SELECT sum({' + '.join([long] * 20)}) FROM n"
    assert refused(query) == "the query takes more than 0.05 s"


def test_a_fixture_without_end(monkeypatch):
    monkeypatch.setattr(module, "STEPS", 20_000)
    found = refused("SELECT 1", "CREATE TABLE t AS " + ENDLESS + "SELECT i FROM n")
    assert found == "the fixture takes more than 20,000 steps"


def test_a_view_and_the_schema_can_be_read_and_every_database_is_fresh():
    assert query_rows("SELECT name FROM quiet", FIXTURE) == [("a1",), ("b",)]
    assert query_rows("SELECT count(*) FROM sqlite_master WHERE type = 'table'", FIXTURE) == [(1,)]
    assert query_rows("SELECT count(*) FROM sqlite_master", "") == [(0,)]


ROWS = st.lists(st.tuples(st.sampled_from([None, 1, 2, "a"]), st.sampled_from([0.5, "b"])), max_size=6)


@settings(deadline=None)
@given(ROWS, st.randoms())
def test_rows_are_a_multiset_unless_their_order_counts(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert rows_difference(shuffled, rows, ordered=False) == ""
    assert (rows_difference(shuffled, rows, ordered=True) == "") == (shuffled == rows)
    assert rows_difference([*rows, (9, 9)], rows, ordered=False).endswith("not expected: (9, 9)")
    assert rows_difference(rows, [*rows, (9, 9)], ordered=False).endswith("missing: (9, 9)")


@settings(max_examples=30, deadline=None)
@given(st.text(alphabet="SELECT *FROMhost();'\"-/,=1%\0\ud800é", max_size=60))
def test_any_text_gives_rows_or_a_reason(text):
    try:
        rows = query_rows(text, FIXTURE)
    except Refused as found:
        assert str(found)
    else:
        assert len(rows) <= module.ROWS
