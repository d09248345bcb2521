"""What became of a root: the first outcome that applies, the rule that decided and its evidence (METRICS, Generation).

Two futures of one root are compared. ``PAIRS`` says which: ``branch`` is branch-and-follow and gives a root its
outcome; ``token`` keeps the reference's weights behind both first tokens and shows what the wrong token does alone;
``weights`` keeps the reference's token and shows what the wrong weights do behind the right one.

============================  ==========================================================================================
outcome                       rules
============================  ==========================================================================================
both-malformed                ``both: `` and what the candidate's is
malformed                     ``does not parse``; ``fits no schema``; ``was left open at the end of the turn``
reference-malformed           the same three
no-call                       ``the turn ended without a call``
unasked-call                  ``the reference's turn ended without a call``
wrong-call                    ``another tool``; ``other argument values``; ``another number of calls``
recovers                      ``calls equal by value``; ``texts equal``; ``texts equal up to where both were cut``;
                              ``re-synchronised with the same literals``
changes                       ``re-synchronised with other literals`` (literal); ``both ended and differ in literals
                              alone`` (literal); ``both ended``
unresolved                    ``the horizon ended first`` or ``the context``, and behind it ``, in a loop``
============================  ==========================================================================================

How cases are decided that the definition leaves open:

* *Cut* is a future that the horizon or the engine's context ended. A structure that was cut is sound while it can still
  be completed, and passes for sound: the outcome ``malformed`` may stand beside a reference that was cut.
* Calls of a side that was cut may still follow. ``no-call``, ``unasked-call`` and ``wrong-call`` are given where no
  call that is still to come could undo them; ``calls equal by value`` needs both sides whole.
* A call of a tool that is not among the scene's tools fits no schema. A scene without tools holds calls to none.
* Which calls are compared: see ``readings.Reading`` and ``call_pairs.paired``.
* Texts are compared from the root to the end without the end token; white space is folded together with what stands
  before the root, so that ``foo bar`` is not ``foobar``. One that ended is not equal to one that was cut.
* Literals are compared up to the place of re-synchronisation; without one, in the whole futures. They are compared as
  a multiset: in another order they are the same. Inside a call or a JSON value the order counts, because there the
  place of a value is what it means: two arguments that changed places are no recovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from drift_runs.generate.cases import Case, case_of
from drift_runs.generate.copied import masked
from drift_runs.generate.evidence import evidence_of
from drift_runs.generate.future import CONTEXT, HORIZON, Future, Scene

OUTCOMES = (
    "both-malformed",
    "malformed",
    "reference-malformed",
    "no-call",
    "unasked-call",
    "wrong-call",
    "recovers",
    "changes",
    "unresolved",
)
"""In the order in which they are tried."""

PAIRS = ("branch", "token", "weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The judged columns of table ``OUTCOMES``."""

    outcome: str
    rule: str
    structure: str
    """Kind of what was open at the root; empty: nothing was."""
    literal: bool
    """The outcome is ``changes`` and a literal is what changed."""
    loop: bool
    """The candidate's future repeats itself."""
    resync_reference: int | None
    """Tokens before the futures re-synchronise, whatever the outcome; None: they do not."""
    resync_candidate: int | None
    propagated: int | None
    """Later literals and calls of the candidate's that carry a wrong value; None: none is known to be wrong."""
    evidence: Mapping[str, Any]
    """What JSON can hold.

    ``structure``: kind, start in characters of the turn, language. ``faults``: by side null or kind, turn, why.
    ``calls``: pairs with ``equal`` and ``settled``, by side null or turn, name, arguments, and ``differences``: a path
    from the arguments down and the value of each side that has one. ``resync``: null, or by side tokens and characters.
    ``literals``: ``before`` (``resync`` or ``end``) and the literals of each side. ``not_copied``: null, or the
    literal of each side, ``in_history``, ``letters``: [operation, reference's, candidate's]. ``propagated``: null, or
    values, calls, literals. ``loops``: by side tokens, distinct share of 8-grams, period, stretch, ``is_loop``.
    """


def judge(scene: Scene, reference: Future, candidate: Future) -> Outcome:
    """The outcome of two futures of the scene's root."""
    case = case_of(scene, reference, candidate)
    decided = _decided(case, CONTEXT if CONTEXT in (reference.ended, candidate.ended) else HORIZON)
    return Outcome(
        outcome=decided.outcome,
        rule=decided.rule,
        structure=case.structure.kind,
        literal=decided.literal,
        loop=case.candidate.loop.is_loop,
        resync_reference=case.resync.reference_tokens if case.resync else None,
        resync_candidate=case.resync.candidate_tokens if case.resync else None,
        propagated=case.spread.later if case.spread else None,
        evidence=evidence_of(case),
    )


class _Decided(NamedTuple):
    outcome: str
    rule: str
    literal: bool = False


def _decided(case: Case, cut: str) -> _Decided:
    """``cut``: what ended a future that did not end by itself."""
    ours, theirs = case.reference.reading, case.candidate.reading
    if ours.fault and theirs.fault:
        return _Decided("both-malformed", f"both: {theirs.fault.kind}")
    if theirs.fault:
        return _Decided("malformed", theirs.fault.kind)
    if ours.fault:
        return _Decided("reference-malformed", ours.fault.kind)
    if case.pairs.wrong:
        return _wrong_calls(case)
    if case.pairs.equal:
        return _Decided("recovers", "calls equal by value")
    if case.reference.words == case.candidate.words and ours.ended == theirs.ended:
        return _Decided("recovers", "texts equal" if ours.ended else "texts equal up to where both were cut")
    if case.resync:
        if _same_literals(case):
            return _Decided("recovers", "re-synchronised with the same literals")
        return _Decided("changes", "re-synchronised with other literals", literal=True)
    if ours.ended and theirs.ended:
        alike = masked(case.reference.part).split() == masked(case.candidate.part).split()
        if alike and case.reference.part.counts != case.candidate.part.counts:
            return _Decided("changes", "both ended and differ in literals alone", literal=True)
        return _Decided("changes", "both ended")
    loop = ", in a loop" if case.candidate.loop.is_loop else ""
    return _Decided("unresolved", f"the {cut} ended first{loop}")


def _same_literals(case: Case) -> bool:
    """Whether both sides' parts before the re-synchronisation hold the same literals."""
    if case.structure.kind in ("call", "json"):
        ours, theirs = ([literal.text for literal in side.part.literals] for side in (case.reference, case.candidate))
        return ours == theirs
    return case.reference.part.counts == case.candidate.part.counts


def _wrong_calls(case: Case) -> _Decided:
    pairs = case.pairs.pairs
    if case.candidate.reading.silent and all(pair.candidate is None for pair in pairs):
        return _Decided("no-call", "the turn ended without a call")
    if case.reference.reading.silent and all(pair.reference is None for pair in pairs):
        return _Decided("unasked-call", "the reference's turn ended without a call")
    beside = [pair for pair in case.pairs.wrong if pair.reference is not None and pair.candidate is not None]
    if any(pair.reference.name != pair.candidate.name for pair in beside):
        return _Decided("wrong-call", "another tool")
    return _Decided("wrong-call", "other argument values" if beside else "another number of calls")
