"""Why a root has its outcome, in words: the rule that decided and what it was decided from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dashboard.components.markup import Html, tag, visible
from drift_runs.charts.outcomes_by_arm import OUTCOME_WORDS

LISTED = 12
"""Literals that a sentence names; the others are counted."""
SHOWN_CHARACTERS = 200
_STRUCTURES = {
    "call": "a tool call",
    "json": "a JSON value",
    "sql": "an SQL block",
    "shell": "a shell block",
    "python": "a Python block",
    "fence": "a fenced block",
}


def evidence_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The evidence of a row of ``OUTCOMES``; nothing where it is no JSON object."""
    try:
        found = json.loads(row["evidence"])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def says(row: Mapping[str, Any], evidence: Mapping[str, Any]) -> list[Html | str]:
    """Outcome, rule and evidence as sentences."""
    meaning = OUTCOME_WORDS.get(row["outcome"], "")
    first = [tag("b", row["outcome"]), f": {meaning}. " if meaning else ". ", f"Decided by: {row['rule']}. "]
    return [*first, " ".join(_sentences(row, evidence))]


def _sentences(row: Mapping[str, Any], evidence: Mapping[str, Any]) -> Iterator[str]:
    if row["structure"]:
        yield f"At the root {_STRUCTURES.get(row['structure'], row['structure'])} was open."
    for side, fault in (evidence.get("faults") or {}).items():
        if fault:
            yield f"The {side}'s turn {fault['turn'] + 1} {fault['kind']}: {_quoted(fault['why'])}."
    if resync := evidence.get("resync"):
        yield (
            f"The streams run together again after {resync['reference']['tokens']:,} tokens of the reference and "
            f"{resync['candidate']['tokens']:,} of the candidate."
        )
    if literals := evidence.get("literals"):
        yield from _literals(literals)
    if missing := evidence.get("not_copied"):
        theirs = "nothing" if missing["candidate"] is None else _quoted(missing["candidate"])
        place = "stands in the history" if missing["in_history"] else "does not stand in the history"
        yield f"Literal {_quoted(missing['reference'])} of the reference {place}; the candidate writes {theirs}."
    if spread := evidence.get("propagated"):
        values = _list([json.dumps(value, ensure_ascii=False) for value in spread["values"]])
        calls, others = spread["calls"], spread["literals"]
        yield f"Wrong values ({values}) are carried on into {calls:,} calls and {others:,} literals."
    for side, loop in (evidence.get("loops") or {}).items():
        if loop and loop["is_loop"]:
            yield f"The {side} repeats itself: a period of {loop['period']:,} over {loop['stretch']:,} tokens."


def _literals(literals: Mapping[str, Any]) -> Iterator[str]:
    ours, theirs = literals["reference"], literals["candidate"]
    where = "before they run together" if literals["before"] == "resync" else "in the whole futures"
    if sorted(ours) == sorted(theirs):
        if ours:
            yield f"Both hold the same {len(ours):,} literals {where}."
        return
    yield f"Literals {where}: the reference's {_list(ours)}; the candidate's {_list(theirs)}."


def _list(texts: list[str]) -> str:
    if not texts:
        return "none"
    shown = ", ".join(map(_quoted, texts[:LISTED]))
    return f"{shown} and {len(texts) - LISTED:,} more" if len(texts) > LISTED else shown


def _quoted(text: str) -> str:
    cut = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} …"
    return f"“{visible(cut)}”"
