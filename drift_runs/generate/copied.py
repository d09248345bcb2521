"""Literals of two futures: whether both hold the same ones, and which one the candidate failed to copy.

Literals are those of ``measure.literals``, found in the whole of the assistant's turn and its future. One that begins
in the history, or ends behind a place at which the futures are parted, is there as a whole: ``543ql`` is no ``5432``
though its first digits stand in the history, nor is ``5932`` though its last ones are equal again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from drift_runs.generate.words import stands_alone
from drift_runs.measure.literals import literal_spans

LIKENESS = 0.5
"""Of ``SequenceMatcher.quick_ratio``: from which on a literal elsewhere counts as standing in another's place."""
_COMPARED = 64
"""Literals of the candidate that are looked at for one that stands in the place of the reference's."""
_LETTERS = 256
"""Characters of a literal that are compared one by one."""
_NO_WORD = re.compile(rb"""[^\s"'`,;(){}\[\]<>]{0,256}""")


class Literal(NamedTuple):
    """One literal and where it stands: half-open, in bytes of the part's ``whole``."""

    text: bytes
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A future, or what of it lies before a place."""

    whole: bytes
    """The line of the assistant's turn in which the root lies, and the future: no literal goes beyond a line."""
    literals: tuple[Literal, ...]
    """Every one that has a byte in the part or around it, in order; they may lie in one another."""
    cut: bool
    """The text was cut where ``whole`` ends, and the other future goes its own way there."""

    @property
    def counts(self) -> Counter[bytes]:
        return Counter(literal.text for literal in self.literals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A literal of the reference's that the candidate does not have."""

    reference: bytes
    candidate: bytes | None
    """What stands in its place; None where nothing does."""
    candidate_literal: bool
    """What stands in its place is a literal too."""
    in_history: bool
    """The reference's stands in the history: it was copied."""

    @property
    def letters(self) -> tuple[tuple[str, str, str], ...]:
        """The difference character by character, as ``(operation, reference's, candidate's)``.

        Operations are those of ``difflib``: ``equal``, ``replace``, ``delete`` and ``insert``.
        """
        one, other = (text.decode("utf-8", "replace") for text in (self.reference, self.candidate or b""))
        matcher = SequenceMatcher(None, one[:_LETTERS], other[:_LETTERS], autojunk=False)
        found = [(tag, one[a:b], other[c:d]) for tag, a, b, c, d in matcher.get_opcodes()]
        if one[_LETTERS:] or other[_LETTERS:]:
            found.append(("replace", one[_LETTERS:], other[_LETTERS:]))
        return tuple(found)


def part(turn: bytes, future: bytes, before: int | None = None, *, cut: bool = False) -> Part:
    """The literals of ``future[:before]``, or of all of it, in what follows the assistant's ``turn`` at the root.

    A future that is longer than its other one should be cut to what both know behind ``before``, so that a literal that
    reaches far is cut on both sides alike. ``cut``: the horizon ended the future; a literal that it ended is none.
    """
    line = turn[turn.rfind(b"\n") + 1 :]
    whole, root = line + future, len(line)
    end = len(whole) if before is None else root + before
    last = len(whole) - 1 if cut else len(whole)
    spans = sorted({span for span in literal_spans(whole) if span[0] < end and root < span[1] <= last})
    return Part(whole=whole, literals=tuple(Literal(whole[start:stop], start, stop) for start, stop in spans), cut=cut)


def masked(part: Part) -> bytes:
    """The part's text with a mark in the place of every literal: what is left is equal where only literals differ."""
    pieces: list[bytes] = []
    place = 0
    for literal in part.literals:
        if literal.start >= place:
            pieces += [part.whole[place : literal.start], b"\x00"]
        place = max(place, literal.end)
    return b"".join([*pieces, part.whole[place:]])


def not_copied(reference: Part, candidate: Part, history: str) -> Copied | None:
    """The first literal that the reference has and the candidate does not; None where there is none.

    One that stands in the history goes before one that does not: it had to be copied. Of several that hold the first
    difference the shortest is taken, the number and not the quoted string around it. In its place stands what begins
    where it begins, if the texts are equal up to there; else the candidate's literal that is most like it and that the
    reference does not have. Nothing is known of a candidate that was cut before it wrote anything else.
    """
    apart = _common(reference.whole, candidate.whole)
    if candidate.cut and apart == len(candidate.whole):
        return None
    lacking = _extra(reference.literals, candidate.counts)
    if not lacking:
        return None
    stands = {text: stands_alone(text.decode("utf-8", "replace"), history) for text in {one.text for one in lacking}}

    def urgency(literal: Literal) -> tuple[bool, int, int]:
        return not stands[literal.text], max(literal.start, apart), literal.end - literal.start

    missing = min(lacking, key=urgency)
    place, is_literal = _in_place_of(missing, reference, candidate, apart)
    return Copied(
        reference=missing.text,
        candidate=place,
        candidate_literal=is_literal,
        in_history=stands[missing.text],
    )


def _extra(literals: Iterable[Literal], others: Counter[bytes]) -> list[Literal]:
    """The literals that are left when as many of each text as the others have are taken away, the first ones first."""
    left = Counter(others)
    extra = []
    for literal in literals:
        if left[literal.text] > 0:
            left[literal.text] -= 1
        else:
            extra.append(literal)
    return extra


def _in_place_of(missing: Literal, reference: Part, candidate: Part, apart: int) -> tuple[bytes | None, bool]:
    if missing.start <= apart:
        length = missing.end - missing.start
        same = [literal for literal in candidate.literals if literal.start == missing.start]
        if same:
            nearest = min(same, key=lambda literal: (abs(len(literal.text) - length), -len(literal.text)))
            return nearest.text, True
        found = _NO_WORD.match(candidate.whole, missing.start)
        return (found[0] or None) if found else None, False
    extra = [literal for literal in _extra(candidate.literals, reference.counts) if literal.end > apart][:_COMPARED]
    best = _most_alike(missing.text, [literal.text for literal in extra])
    return best, best is not None


def _most_alike(text: bytes, others: Sequence[bytes]) -> bytes | None:
    """The one of ``others`` most like ``text``, the first of several; None where none is like it."""
    best, likeness = None, LIKENESS
    for other in others:
        found = SequenceMatcher(None, text[:_LETTERS], other[:_LETTERS], autojunk=False).quick_ratio()
        if found > likeness or (best is None and found == likeness):
            best, likeness = other, found
    return best


def _common(one: bytes, other: bytes) -> int:
    """Bytes that both begin with."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)
