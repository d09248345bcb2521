"""The calls of two futures side by side: which are equal by value, and what differs in the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from drift_runs.generate.calls import Call
from drift_runs.generate.readings import Reading
from drift_runs.generate.values import same_value

Path = tuple[str | int, ...]
"""Keys and places in lists, from the arguments down."""


class Difference(NamedTuple):
    """A place in the arguments at which two calls differ."""

    path: Path
    reference: tuple[Any, ...]
    """The value, alone; empty where the call has none there."""
    candidate: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPair:
    """A call of each side, or of one alone."""

    reference: Call | None
    candidate: Call | None
    reference_turn: int | None
    candidate_turn: int | None
    equal: bool
    settled: bool
    """False: not equal, but the other side was cut before it could answer for it."""

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Of the arguments, in order of their places; none where either call is missing."""
        if self.equal or self.reference is None or self.candidate is None:
            return ()
        return tuple(differences(self.reference.arguments, self.candidate.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPairs:
    """All calls of two futures."""

    pairs: tuple[CallPair, ...]
    equal: bool
    """The same calls by value, on both sides at least one, and no more can follow."""

    @property
    def wrong(self) -> tuple[CallPair, ...]:
        """Pairs that are certain to differ, whatever a side that was cut might have written."""
        return tuple(pair for pair in self.pairs if not pair.equal and pair.settled)


class _Placed(NamedTuple):
    call: Call
    turn: int


def paired(reference: Reading, candidate: Reading) -> CallPairs:
    """Calls in the order of their turns. Within a turn the order is free: calls of one turn are made at once.

    Where one side makes in one turn what the other makes in several, the order is free within the longest of them: the
    calls are parted where a turn ends on both sides behind equally many calls. A call that has no equal is set beside
    one of the same tool, or the first that is left. It is certain to differ when the other side was not cut.
    """
    ours, theirs = _placed(reference), _placed(candidate)
    pairs: list[CallPair] = []
    edges = sorted(_edges(reference) & _edges(candidate) | {0})
    for start, end in zip(edges, [*edges[1:], None], strict=True):
        last = end is None
        pairs += _block(
            ours[start:end],
            theirs[start:end],
            reference_whole=not last or reference.silent,
            candidate_whole=not last or candidate.silent,
        )
    whole = reference.silent and candidate.silent
    return CallPairs(pairs=tuple(pairs), equal=bool(pairs) and whole and all(pair.equal for pair in pairs))


def _placed(reading: Reading) -> list[_Placed]:
    return [_Placed(call, turn) for turn, said in enumerate(reading.turns) for call in said.calls]


def _edges(reading: Reading) -> set[int]:
    """Numbers of calls behind which a turn ends."""
    counts, total = [], 0
    for turn in reading.turns:
        total += len(turn.calls)
        counts.append(total)
    return set(counts if reading.silent else counts[:-1])


def _block(
    ours: Sequence[_Placed], theirs: Sequence[_Placed], *, reference_whole: bool, candidate_whole: bool
) -> Iterator[CallPair]:
    """Every call of a stretch within which the order is free, in the order of the reference's, then what is left."""
    left = dict(enumerate(theirs))
    matches: list[tuple[_Placed, _Placed | None]] = []
    for one in ours:
        at = next((at for at, other in left.items() if _same(one.call, other.call)), None)
        matches.append((one, None if at is None else left.pop(at)))
    for one, match in matches:
        if match is not None:
            yield _pair(one, match, equal=True, settled=True)
            continue
        first = next(iter(left), None)
        at = next((at for at, other in left.items() if other.call.name == one.call.name), first)
        beside = None if at is None else left.pop(at)
        # Either call lacks its equal: it takes one side that is whole to be sure of that.
        settled = candidate_whole or (beside is not None and reference_whole)
        yield _pair(one, beside, equal=False, settled=settled)
    for other in left.values():
        yield _pair(None, other, equal=False, settled=reference_whole)


def _same(one: Call, other: Call) -> bool:
    return one.name == other.name and same_value(one.arguments, other.arguments)


def _pair(one: _Placed | None, other: _Placed | None, *, equal: bool, settled: bool) -> CallPair:
    return CallPair(
        reference=one and one.call,
        candidate=other and other.call,
        reference_turn=one and one.turn,
        candidate_turn=other and other.turn,
        equal=equal,
        settled=settled,
    )


def differences(reference: Any, candidate: Any) -> Iterator[Difference]:
    """Where two values of JSON differ, outermost first and in order. No recursion: a text nests as deep as it likes."""
    stack: list[tuple[Path, tuple[Any, ...], tuple[Any, ...]]] = [((), (reference,), (candidate,))]
    while stack:
        path, one, other = stack.pop()
        if one and other and isinstance(one[0], Mapping) and isinstance(other[0], Mapping):
            keys = dict.fromkeys([*one[0], *other[0]])
            inner = [((*path, key), _at(one[0], key), _at(other[0], key)) for key in keys]
        elif one and other and isinstance(one[0], list) and isinstance(other[0], list):
            places = range(max(len(one[0]), len(other[0])))
            inner = [((*path, at), tuple(one[0][at : at + 1]), tuple(other[0][at : at + 1])) for at in places]
        else:
            if not (one and other and same_value(one[0], other[0])):
                yield Difference(path, one, other)
            continue
        stack.extend(reversed(inner))


def _at(value: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    return (value[key],) if key in value else ()
