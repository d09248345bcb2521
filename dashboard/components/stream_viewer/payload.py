"""What the viewer is given: both futures of a root as plain values, split where they re-synchronise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.components.stream_viewer.pieces import Piece, pieces, plain
from drift_runs.generate.future import CONTEXT, HORIZON, STRUCTURE, TURN, Future

STEPS = ((0.99, "99 % and more"), (0.9, "90 to 99 %"), (0.5, "50 to 90 %"), (0.1, "10 to 50 %"), (0.0, "below 10 %"))
"""Lower edge and words of each colour: the less sure, the stronger."""
HISTORY_TOKENS = 200
"""Tokens before the root that can be opened; the last few stand there at once."""
ENDED = {
    STRUCTURE: "ends where what was open is closed",
    TURN: "ends its turn",
    HORIZON: "cut at the horizon",
    CONTEXT: "cut where the engine takes no more tokens",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two futures."""

    name: str
    says: str
    """What distinguishes it, in words."""
    future: Future | None
    """None: its tokens are not stored, ``text`` is all there is."""
    text: str = ""
    ended: str = ""
    resync: int | None = None
    """Tokens before it re-synchronises with the other; None: it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What both futures continue."""

    tokens: Sequence[int]
    """The last of the tokens before the root, at most :data:`HISTORY_TOKENS`."""
    position: int
    """Tokens before the root, all of them."""
    missing: str = ""
    """Why some of them are not there; empty: none is missing."""


def payload(history: History, left: Side, right: Side, dictionary: Sequence[bytes]) -> dict[str, Any]:
    """Values that JSON can hold. ``dictionary``: the bytes of each token id; an id beyond it is shown as a number."""
    words = _Words(dictionary)
    sides = (left, right)
    rows = [[] if side.future is None else words.tokens(side.future) for side in sides]
    i, j = left.resync, right.resync
    joins = i is not None and j is not None and left.future is not None and right.future is not None
    apart = [rows[0][:i], rows[1][:j]] if joins else rows
    joined: list[dict[str, Any]] = []
    rest: list[list[dict[str, Any]]] = [[], []]
    if joins:
        behind = [rows[0][i:], rows[1][j:]]
        both = min(map(len, behind))
        joined = [_shown([(0, one), (1, other)]) for one, other in zip(*behind, strict=False)]
        rest = [[_shown([(at, one)]) for one in side[both:]] for at, side in enumerate(behind)]
    return {
        "history": {
            "tokens": [words.pieces(token) for token in history.tokens],
            "position": history.position,
            "missing": history.missing,
        },
        "sides": [
            {
                "name": side.name,
                "says": side.says,
                "ended": ENDED.get(side.ended, side.ended),
                "count": len(rows[at]) if side.future is not None else None,
                "tokens": [_shown([(at, one)]) for one in apart[at]],
                "rest": rest[at],
                "text": [list(piece) for piece in pieces(side.text.encode("utf-8", "surrogatepass"))]
                if side.future is None
                else None,
            }
            for at, side in enumerate(sides)
        ],
        "joined": joined,
        "joins": joins,
        "steps": [words_ for _, words_ in STEPS],
    }


class _Words:
    def __init__(self, dictionary: Sequence[bytes]) -> None:
        self.dictionary = dictionary

    def pieces(self, token: int) -> list[Piece]:
        if 0 <= token < len(self.dictionary):
            return pieces(self.dictionary[token]) or [("s", "(empty)")]
        return [("s", f"\\{{{token}}}")]

    def tokens(self, future: Future) -> list[dict[str, Any]]:
        return [self._token(future, at) for at in range(len(future.tokens))]

    def _token(self, future: Future, at: int) -> dict[str, Any]:
        token, logprob = future.tokens[at], future.logprobs[at]
        written = future.written[at]
        alternatives = None
        if future.top_ids is not None and future.top_logprobs is not None:
            alternatives = [
                {"id": id_, "pieces": self.pieces(id_), "p": _probability(value)}
                for id_, value in zip(future.top_ids[at], future.top_logprobs[at], strict=True)
            ]
        return {
            "at": at,
            "id": token,
            "pieces": self.pieces(token),
            "kind": "written" if written else ("root" if at == 0 else "answer"),
            "p": None if logprob is None else _probability(logprob),
            "nats": logprob if logprob is not None and math.isfinite(logprob) else None,
            "alternatives": alternatives if written else [],
        }


def _shown(sides: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """A token as it stands on the page: of one side, or of both where they have run together."""
    known = [one["p"] for _, one in sides if one["p"] is not None]
    first = sides[0][1]
    return {
        "pieces": first["pieces"],
        "label": plain(first["pieces"]),
        "root": any(one["kind"] == "root" for _, one in sides),
        "given": all(one["kind"] != "written" for _, one in sides),
        "step": _step(min(known)) if known else None,
        "sides": [[at, one] for at, one in sides],
    }


def _step(p: float) -> int:
    return next(at for at, (edge, _) in enumerate(STEPS) if p >= edge or edge == 0.0)


def _probability(logprob: float) -> float:
    return min(math.exp(logprob), 1.0)
