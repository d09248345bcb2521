"""How far a wrong value spreads: what the candidate writes and calls with it later on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from drift_runs.generate.call_pairs import CallPair, CallPairs
from drift_runs.generate.calls import Call
from drift_runs.generate.copied import Copied
from drift_runs.generate.readings import Reading, Turn
from drift_runs.generate.values import same_value
from drift_runs.generate.words import stands_alone
from drift_runs.measure.literals import literal_spans

_QUOTES = "\"'`"


class Propagation(NamedTuple):
    """Where a wrong value stands in the candidate's own turns, the place where it first does included."""

    values: tuple[Any, ...]
    """The literal that stands in place of the reference's, and arguments that differ from the reference's."""
    calls: int
    """Calls that carry one of them and that the reference does not make."""
    literals: int
    """Places outside of calls where the literal stands, beyond those of the reference's future."""

    @property
    def later(self) -> int:
        """Calls and literals without the first of them."""
        return max(0, self.calls + self.literals - 1)


def propagation(reference: Reading, candidate: Reading, pairs: CallPairs, missing: Copied | None) -> Propagation | None:
    """None where no value is known to be wrong.

    Values are wrong that the candidate has in the place of others: a literal, or a number or text in a call of the same
    tool. A call carries one that is an argument of it, at any depth, or a literal that stands by itself in a text of
    its arguments. It counts once. What an environment answers does not count: the model did not write it.
    """
    literal = missing.candidate if missing is not None and missing.candidate_literal else None
    arguments = [value for pair in pairs.wrong for value in _wrong_arguments(pair)]
    if literal is None and not arguments:
        return None
    values: list[Any] = [] if literal is None else [literal.decode("utf-8", "replace")]
    bare = values[0].strip(_QUOTES) if values else ""
    mine = [pair.candidate for pair in pairs.pairs if pair.candidate is not None and not pair.equal]
    spread = 0
    if literal is not None:
        spread = _outside(candidate)[literal] - _outside(reference)[literal]
    return Propagation(
        values=(*values, *arguments),
        calls=sum(_carries(call, bare, arguments) for call in mine),
        literals=max(0, spread),
    )


def _wrong_arguments(pair: CallPair) -> Iterator[Any]:
    if pair.reference is None or pair.candidate is None or pair.reference.name != pair.candidate.name:
        return
    for difference in pair.differences:
        for value in difference.candidate:
            if value != "" and isinstance(value, str | int | float) and not isinstance(value, bool):
                yield value


def _carries(call: Call, bare: str, values: Sequence[Any]) -> bool:
    for leaf in _leaves(call.arguments):
        if any(same_value(leaf, value) for value in values):
            return True
        if bare and not isinstance(leaf, bool) and leaf is not None and stands_alone(bare, str(leaf)):
            return True
    return False


def _leaves(value: Any) -> Iterator[Any]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, Mapping):
            stack.extend(one.values())
        elif isinstance(one, list | tuple):
            stack.extend(one)
        else:
            yield one


def _outside(reading: Reading) -> Counter[bytes]:
    """Literals of the assistant's own text that stand in no call, and how often."""
    return sum((_outside_of_calls(turn) for turn in reading.turns), Counter())


def _outside_of_calls(turn: Turn) -> Counter[bytes]:
    # No literal goes beyond a line, and what lies before the root's line is the history's.
    place = turn.text.rfind("\n", 0, turn.begins) + 1
    pieces: list[str] = []
    own = 0
    for start, end in [*sorted({(call.start, call.end) for call in turn.calls}), (len(turn.text), len(turn.text))]:
        if start >= place:
            piece = turn.text[place:start]
            own += len(turn.text[place : min(start, turn.begins)].encode()) if place < turn.begins else 0
            pieces.append(piece)
        place = max(place, end)
    text = "\n".join(pieces).encode()
    return Counter(text[start:end] for start, end in set(literal_spans(text)) if end > own)
