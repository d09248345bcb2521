"""Two futures of one root and everything that a judgement of them is made from."""

from __future__ import annotations

from dataclasses import dataclass

from drift_runs.generate.call_pairs import CallPairs, paired
from drift_runs.generate.copied import Copied, Part, not_copied, part
from drift_runs.generate.future import TURN, Future, Scene
from drift_runs.generate.loops import LoopReport, loop_report
from drift_runs.generate.propagation import Propagation, propagation
from drift_runs.generate.readings import Opening, Reading, opening, read, turn_tokens
from drift_runs.generate.resync import Resync, resynchronised
from drift_runs.generate.structures import Structure, enclosing


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two futures."""

    reading: Reading
    part: Part
    """Up to where the futures re-synchronise, or whole where they do not."""
    words: tuple[str, ...]
    """Of the text, white space folded, from the line on in which the root lies."""
    loop: LoopReport
    """Of what the assistant wrote, the first token included."""
    resync_characters: int | None
    """Characters before the futures re-synchronise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is known of two futures."""

    structure: Structure
    reference: Side
    candidate: Side
    pairs: CallPairs
    resync: Resync | None
    missing: Copied | None
    spread: Propagation | None


def case_of(scene: Scene, reference: Future, candidate: Future) -> Case:
    """Both futures read against their scene."""
    structure = enclosing(scene)
    begun = opening(scene, structure)
    resync = resynchronised(reference.tokens, candidate.tokens, scene.history)
    known = _known_tokens(_spoken(scene, reference), _spoken(scene, candidate), resync)
    ours, theirs = (
        _side(scene, begun, future, before, until)
        for future, before, until in zip((reference, candidate), resync or (None, None), known, strict=True)
    )
    pairs = paired(ours.reading, theirs.reading)
    missing = not_copied(ours.part, theirs.part, scene.text)
    return Case(
        structure=structure,
        reference=ours,
        candidate=theirs,
        pairs=pairs,
        resync=resync,
        missing=missing,
        spread=propagation(ours.reading, theirs.reading, pairs, missing),
    )


def _known_tokens(ours: tuple[int, ...], theirs: tuple[int, ...], resync: Resync | None) -> tuple[int, int]:
    """Tokens of each side up to where both are known: behind re-synchronisation the shorter rest."""
    if resync is None:
        return len(ours), len(theirs)
    common = min(len(ours) - resync.reference_tokens, len(theirs) - resync.candidate_tokens)
    return resync.reference_tokens + common, resync.candidate_tokens + common


def _side(scene: Scene, begun: Opening, future: Future, before: int | None, until: int) -> Side:
    spoken = _spoken(scene, future)
    own = [token for turn in turn_tokens(future, frozenset()) for token in turn]
    known = _raw(scene, spoken[:until])
    reading = read(scene, begun, future)
    if before is None:
        looked_at = part(begun.turn, known, cut=not reading.ended)
    else:
        looked_at = part(begun.turn, known, len(_raw(scene, spoken[:before])))
    return Side(
        reading=reading,
        part=looked_at,
        words=_folded(begun, _raw(scene, spoken)),
        loop=loop_report(own),
        resync_characters=None if before is None else len(scene.read(spoken[:before])),
    )


def _spoken(scene: Scene, future: Future) -> tuple[int, ...]:
    """The tokens of a future without the one that ended it."""
    tokens = future.tokens
    return tokens[:-1] if future.ended == TURN and tokens and tokens[-1] in scene.end_tokens else tokens


def _raw(scene: Scene, tokens: tuple[int, ...]) -> bytes:
    return b"".join(scene.dictionary[token] for token in tokens)


def _folded(begun: Opening, text: bytes) -> tuple[str, ...]:
    # Bytes that are no UTF-8 are kept apart: as U+FFFD the halves of two different characters would be equal.
    line = begun.turn[begun.turn.rfind(b"\n") + 1 :]
    return tuple((line + text).decode("utf-8", "surrogateescape").split())
