"""The evidence of a judgement, as it is stored and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drift_runs.generate.call_pairs import CallPair, Difference
from drift_runs.generate.calls import Call
from drift_runs.generate.cases import Case
from drift_runs.generate.loops import LoopReport
from drift_runs.generate.readings import Fault
from drift_runs.generate.values import quoted

_DEEPEST = 32
"""Levels of an argument that are shown as they are."""


def evidence_of(case: Case) -> dict[str, Any]:
    """A case as JSON can hold it: see ``outcomes.Outcome.evidence``."""
    reference, candidate = case.reference, case.candidate
    return {
        "structure": {
            "kind": case.structure.kind,
            "start": case.structure.start,
            "language": case.structure.language,
        },
        "faults": {"reference": _fault(reference.reading.fault), "candidate": _fault(candidate.reading.fault)},
        "calls": [_pair(pair) for pair in case.pairs.pairs],
        "resync": case.resync
        and {
            "reference": {"tokens": case.resync.reference_tokens, "characters": reference.resync_characters},
            "candidate": {"tokens": case.resync.candidate_tokens, "characters": candidate.resync_characters},
        },
        "literals": {
            "before": "resync" if case.resync else "end",
            "reference": [_text(literal.text) for literal in reference.part.literals],
            "candidate": [_text(literal.text) for literal in candidate.part.literals],
        },
        "not_copied": case.missing
        and {
            "reference": _text(case.missing.reference),
            "candidate": None if case.missing.candidate is None else _text(case.missing.candidate),
            "in_history": case.missing.in_history,
            "letters": [list(piece) for piece in case.missing.letters],
        },
        "propagated": case.spread
        and {
            "values": [_shown(value) for value in case.spread.values],
            "calls": case.spread.calls,
            "literals": case.spread.literals,
        },
        "loops": {"reference": _loop(reference.loop), "candidate": _loop(candidate.loop)},
    }


def _fault(fault: Fault | None) -> dict[str, Any] | None:
    return fault and {"kind": fault.kind, "turn": fault.turn, "why": fault.why}


def _pair(pair: CallPair) -> dict[str, Any]:
    return {
        "equal": pair.equal,
        "settled": pair.settled,
        "reference": _call(pair.reference, pair.reference_turn),
        "candidate": _call(pair.candidate, pair.candidate_turn),
        "differences": [_difference(one) for one in pair.differences],
    }


def _call(call: Call | None, turn: int | None) -> dict[str, Any] | None:
    return call and {"turn": turn, "name": call.name, "arguments": _shown(call.arguments)}


def _difference(one: Difference) -> dict[str, Any]:
    found: dict[str, Any] = {"path": list(one.path)}
    for side, values in (("reference", one.reference), ("candidate", one.candidate)):
        if values:
            found[side] = _shown(values[0])
    return found


def _shown(value: Any, level: int = 0) -> Any:
    """A value as it is, and in words what is nested deeper than a page can show."""
    if isinstance(value, Mapping):
        return {str(key): _shown(item, level + 1) for key, item in value.items()} if level < _DEEPEST else quoted(value)
    if isinstance(value, list | tuple):
        return [_shown(item, level + 1) for item in value] if level < _DEEPEST else quoted(value)
    return value


def _loop(report: LoopReport) -> dict[str, Any]:
    return {
        "tokens": report.tokens,
        "distinct_share": report.distinct_share,
        "period": report.period,
        "stretch": report.stretch,
        "is_loop": report.is_loop,
    }


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
