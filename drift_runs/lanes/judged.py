"""What the futures of an arm's roots came to: table ``OUTCOMES``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from drift_runs.errors import StoreError
from drift_runs.generate.future import Future
from drift_runs.generate.outcomes import PAIRS, judge
from drift_runs.lanes.identity import Lane
from drift_runs.lanes.scenes import Scenes
from drift_runs.lanes.stored import stored_futures
from drift_runs.protocol.canonical import canonical_json
from drift_runs.schema import OUTCOMES
from drift_runs.store import Store
from drift_runs.store.generation import FutureKey

BRANCH, TOKEN, WEIGHTS = PAIRS
_COPIED = ("arm", "window", "document", "panel", "position", "range", "kind", "outlier", "why")


class Side(NamedTuple):
    """Whose weights, and which column of ``ROOTS`` has the first token."""

    lane: Lane
    first: str


def outcomes_table(
    store: Store, scenes: Scenes, roots: pa.Table, *, reference: Lane, candidate: Lane, pairs: tuple[str, ...]
) -> pa.Table:
    """Judge every root: one row a root and pair, schema ``OUTCOMES``. Every future that it takes must be there."""
    return pa.Table.from_pylist(
        [row for pair in pairs for row in _rows(store, scenes, roots, pair, reference, candidate)], schema=OUTCOMES
    )


def constrained_outcomes(
    store: Store, scenes: Scenes, roots: pa.Table, *, name: str, reference: Lane, constrained: Lane
) -> pa.Table:
    """The same for a constrained decode, whose first token is what the grammar let it choose; ``arm`` is its name.

    A root that the grammar does not allow (the stream's own text before it is no start of what it holds to) has no
    future and no row.
    """
    keys = {(key.window, key.position): key for key in own_keys(store, constrained, roots)}
    rows = [row for row in roots.to_pylist() if (row["window"], row["position"]) in keys]
    left = _futures(store, scenes, rows, Side(reference, "reference_top"))
    right = stored_futures(store, scenes, constrained, [keys[row["window"], row["position"]] for row in rows])
    judged = [
        _row({**root, "arm": name}, BRANCH, scenes, one, other)
        for root, one, other in zip(rows, left, right, strict=True)
    ]
    return pa.Table.from_pylist(judged, schema=OUTCOMES)


def own_keys(store: Store, lane: Lane, roots: pa.Table) -> tuple[FutureKey, ...]:
    """The futures that there are of these roots in a lane whose first tokens were its own choice, in their order.

    Raises
    ------
    StoreError
        there are two from one root: only one of them can be what was chosen.
    """
    keys: dict[tuple[str, int], FutureKey] = {}
    for key in sorted(store.futures_there(lane.id)):
        if (key.window, key.position) in keys:
            raise StoreError(
                f"two futures from position {key.position} of window {key.window}",
                where=str(store.generation_folder(lane.id)),
                expected="the one that was chosen",
                todo="remove both and run again",
            )
        keys[key.window, key.position] = key
    places = zip(roots["window"].to_pylist(), roots["position"].to_pylist(), strict=True)
    return tuple(keys[place] for place in places if place in keys)


def _rows(
    store: Store, scenes: Scenes, roots: pa.Table, pair: str, reference: Lane, candidate: Lane
) -> Iterator[dict[str, Any]]:
    left = Side(reference, "reference_top")
    right = {
        BRANCH: Side(candidate, "candidate_top"),
        TOKEN: Side(reference, "candidate_top"),
        WEIGHTS: Side(candidate, "reference_top"),
    }[pair]
    rows = roots.to_pylist()
    sides = (_futures(store, scenes, rows, side) for side in (left, right))
    for root, one, other in zip(rows, *sides, strict=True):
        yield _row(root, pair, scenes, one, other)


def _row(root: dict[str, Any], pair: str, scenes: Scenes, reference: Future, candidate: Future) -> dict[str, Any]:
    found = judge(scenes.at(root["window"], root["position"]), reference, candidate)
    return {
        **{name: root[name] for name in _COPIED},
        "pair": pair,
        "outcome": found.outcome,
        "rule": found.rule,
        "structure": found.structure,
        "literal": found.literal,
        "loop": found.loop,
        "resync_reference": found.resync_reference,
        "resync_candidate": found.resync_candidate,
        "propagated": found.propagated,
        "reference_ended": reference.ended,
        "candidate_ended": candidate.ended,
        "reference_tokens": len(reference.tokens),
        "candidate_tokens": len(candidate.tokens),
        "reference_text": reference.text,
        "candidate_text": candidate.text,
        "evidence": canonical_json(found.evidence).decode(),
    }


def _futures(store: Store, scenes: Scenes, rows: list[dict[str, Any]], side: Side) -> tuple[Future, ...]:
    wanted = [(row["window"], row["position"], row[side.first]) for row in rows]
    return stored_futures(store, scenes, side.lane, wanted)
