"""What parses as SQL, shell and Python, and what must not break its parser."""

from __future__ import annotations

import sys
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import ProtocolError
from drift_runs.generate import languages as module
from drift_runs.generate.calls import TooSlow, time_limit
from drift_runs.generate.languages import python_problem, shell_problem, sql_problem


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE x = 1;",
        "(SELECT 1)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "INSERT INTO t VALUES (1); DELETE FROM t WHERE a = 'x''y'",
        "CREATE TABLE t (a INTEGER PRIMARY KEY)",
        "PRAGMA table_info(t)",
        "EXPLAIN SELECT 1",
        "SELECT 1 -- why\n",
    ],
)
def test_sql_that_parses(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert sql_problem(text, "sqlite") == ""
    assert not caplog.records


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELEC a FROM t", "line 1, column 12"),
        ("SELECT *\nFORM t WHERE", "line 2"),
        ("SELECT (1", "Expecting )"),
        ("SELECT 'a", "okeniz"),
        ("hello", "an expression in place of a statement"),
        ("", "no statement"),
        ("-- nothing", "no statement"),
        ("SELECT 1; oops oops oops", "no SQL"),
    ],
)
def test_sql_that_does_not(text: str, why: str) -> None:
    assert why in sql_problem(text, "sqlite")


def test_sql_is_read_in_its_dialect_and_a_dialect_must_exist() -> None:
    assert sql_problem("SELECT `a` FROM `t`", "mysql") == ""
    assert sql_problem("SELECT a FROM t WHERE a ILIKE 'x' LIMIT 1", "postgres") == ""
    assert sql_problem("SELECT `a b` FROM t", "postgres") != ""
    with pytest.raises(ProtocolError, match=r"no dialect 'klingon'"):
        sql_problem("SELECT 1", "klingon")


@pytest.mark.parametrize(
    "text",
    [
        "ls -la | grep x",
        "for i in 1 2; do echo $i; done",
        "cat <<EOF\nhi (\nEOF\n",
        "find . -name '*.py' -exec rm {} \\;",
        "# why\nA=1 b=$((A + 1)) env | sort &",
        "$ ls\nwhatever ( it printed\n$ pwd\n",
        "",
    ],
)
def test_shell_that_parses(text: str) -> None:
    assert shell_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("if true; then echo", "line 1, byte 1"),
        ("ls\necho 'a", "line 2, byte 5"),
        ("echo )", "), line 1, byte 6"),
        ("a && ", "is missing"),
        ("$ ls (\nfine", "line 1"),
    ],
)
def test_shell_that_does_not(text: str, where: str) -> None:
    assert shell_problem(text).startswith("no shell script: ")
    assert where in shell_problem(text)


@pytest.mark.parametrize(
    "text", ["", "x = 1\n", "def f():\n    return '\\d'\n", ">>> 1 + 1\n2\n>>> def f():\n...     pass\n...\n>>> f()\n"]
)
def test_python_that_parses(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert python_problem(text) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def f(:", "invalid syntax, line 1"),
        ("x = 1\n  y = 2", "unexpected indent, line 2"),
        ("x = '", "unterminated string"),
        ("\0", "null bytes"),
        ("(" * 500, "too many nested parentheses"),
        ("-" * 15_000 + "1", "nested too deeply"),
        ("a" + ".a" * 9_000, "nested too deeply"),
    ],
)
def test_python_that_does_not(text: str, why: str) -> None:
    assert why in python_problem(text)


def test_nothing_of_a_text_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    assert python_problem("print('ran')\nraise SystemExit(1)") == ""
    assert shell_problem("echo ran; exit 1") == ""
    assert capsys.readouterr().out == ""


HOSTILE = [
    "(",
    "$(",
    "{",
    "if ",
    "<<a ",
    "SELECT ",
    "SELECT (",
    "CASE WHEN ",
    "f(",
    "- ",
    "NOT ",
    "'",
    '"',
    "`",
    "[",
    "AND ",
]


@pytest.mark.parametrize("judge", [lambda text: sql_problem(text, "sqlite"), shell_problem, python_problem])
def test_hostile_and_long_texts_are_bounded(judge) -> None:
    begun = time.process_time()
    for piece in HOSTILE:
        judge("SELECT " + piece * (6_000 // len(piece)))
    assert judge("(" * 1_000_000) == ""  # not judged, and so taken as sound
    assert time.process_time() - begun < 20


def test_sql_that_breaks_the_parser_is_none() -> None:
    assert sql_problem("{:}", "sqlite") == "no SQL: the parser breaks on it (AttributeError)"


def test_sql_that_takes_too_long_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "SELECT " + " + ".join(["a"] * 4_000) + " FROM"
    assert sql_problem(long, "sqlite") != ""
    monkeypatch.setattr(module, "LIMIT_S", 0.002)
    assert sql_problem(long, "sqlite") == ""


def test_a_stop_that_a_finaliser_swallows_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def __del__(self) -> None:
            begun = time.process_time()
            while time.process_time() - begun < 0.1:
                pass

    swallowed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: swallowed.append(found.exc_type))
    with pytest.raises(TooSlow), time_limit(0.02):
        Slow()
        while True:
            pass
    assert TooSlow in swallowed


@settings(deadline=None, max_examples=30)
@given(st.text("SELECT FROM()'\"`;$|<>{}=:\n\té\0", max_size=30))
def test_any_text_has_an_answer(text: str) -> None:
    for answer in (sql_problem(text, "sqlite"), shell_problem(text), python_problem(text)):
        assert isinstance(answer, str)
        assert "\n" not in answer
