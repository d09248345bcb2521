"""Why a text is no SQL, no shell script or no Python. Nothing is run or evaluated: a text is parsed, and that is all.

Parsers of languages are not linear in every text that a model can write. One that is longer than ``LIMIT_CHARACTERS``,
or takes a parser longer than ``LIMIT_S``, is not judged and counts as sound. One that is nested deeper than its parser
goes does not parse.
"""

from __future__ import annotations

import ast
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from drift_runs.errors import ProtocolError
from drift_runs.generate.calls import TooSlow, time_limit

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LIMIT_CHARACTERS = 20_000
LIMIT_S = 5.0
"""Processor time."""

TOO_DEEP = "nested too deeply"
_PROMPTS = ("$ ", "# ", "% ")


def sql_problem(text: str, dialect: str) -> str:
    """Why ``text`` is no sequence of SQL statements in a dialect of sqlglot; empty when it is.

    A statement that sqlglot passes over as a command of the dialect counts as sound.

    Raises
    ------
    ProtocolError
        no dialect has that name.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, SqlglotError

    try:
        known = sqlglot.Dialect.get_or_raise(dialect)
    except ValueError:
        raise ProtocolError(
            f"no dialect {dialect!r}", where="branches.sql_dialect", expected="a dialect of sqlglot"
        ) from None
    if len(text) > LIMIT_CHARACTERS:
        return ""
    try:
        with _quiet("sqlglot"), time_limit(LIMIT_S):
            statements = [statement for statement in sqlglot.parse(text, read=known) if statement is not None]
    except TooSlow:
        return ""
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        if "line" in first:
            return f"no SQL: {_line(first['description'])}, line {first['line']}, column {first['col']}"
        return f"no SQL: {_line(str(error))}"
    except SqlglotError as error:
        # The tokenizer makes an error of its own of anything that is raised inside it.
        return "" if isinstance(error.__context__, TooSlow) else f"no SQL: {_line(str(error))}"
    except (RecursionError, MemoryError):
        return f"no SQL: {TOO_DEEP}"
    except (AttributeError, TypeError, LookupError, ValueError) as error:
        # The parser takes for granted what a broken text lacks: `{:}` is one.
        return f"no SQL: the parser breaks on it ({type(error).__name__})"
    if not statements:
        return "no SQL: no statement"
    # A lone word or sum parses as an expression: it is no statement.
    lone = next((statement for statement in statements if isinstance(statement, (exp.Condition, exp.Alias))), None)
    return "" if lone is None else "no SQL: an expression in place of a statement"


def shell_problem(text: str) -> str:
    """Why ``text`` is no script for a shell, by the grammar of Bash; empty when it is.

    In a transcript, whose first line begins with a prompt, only the lines with a prompt are read.
    """
    if len(text) > LIMIT_CHARACTERS:
        return ""
    data = _commands(text).encode("utf-8", "replace")
    root = _shell_parser().parse(data).root_node
    if not root.has_error:
        return ""
    node = _first_error(root)
    line, column = node.start_point[0] + 1, node.start_point[1] + 1
    what = (
        f"{node.type} is missing" if node.is_missing else _line(data[node.start_byte :][:40].decode("utf-8", "replace"))
    )
    return f"no shell script: {what}, line {line}, byte {column}"


def python_problem(text: str) -> str:
    """Why ``text`` is no Python; empty when it is. In a session with ``>>>`` only what was typed is read."""
    if len(text) > LIMIT_CHARACTERS:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(_typed(text))
    except SyntaxError as error:
        return f"no Python: {error.msg}, line {error.lineno}" if error.lineno else f"no Python: {error.msg}"
    except ValueError as error:  # a null byte
        return f"no Python: {error}"
    except (RecursionError, MemoryError):
        return f"no Python: {TOO_DEEP}"
    return ""


def _commands(text: str) -> str:
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    # "# " begins a comment in a script, and a prompt only beside others.
    if not first.startswith(("$ ", "% ")):
        return text
    return "\n".join(line[2:] for line in lines if line.startswith(_PROMPTS))


def _typed(text: str) -> str:
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if not first.startswith(">>>"):
        return text
    return "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))


@cache
def _shell_parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _first_error(root: Node) -> Node:
    node = root
    while not (node.is_error or node.is_missing):
        inner = next((child for child in node.children if child.is_error or child.is_missing or child.has_error), None)
        if inner is None:
            break
        node = inner
    return node


@contextmanager
def _quiet(logger: str) -> Iterator[None]:
    """What a parser logs of a model's text is no news to whoever runs a campaign."""
    log = logging.getLogger(logger)
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:200]}…"
