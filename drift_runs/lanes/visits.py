"""What came of the places where an arm without rows was followed.

Its flips are not known before it has written: it is asked at places where other arms left the reference, and where it
writes another token than the reference it goes on from there.
"""

from __future__ import annotations

import pyarrow as pa

from drift_runs.errors import StoreError
from drift_runs.lanes.identity import Lane
from drift_runs.schema import ROOTS
from drift_runs.store import Store


def came_of(store: Store, lane: Lane, places: pa.Table) -> pa.Table:
    """``places`` (schema ``ROOTS``) with what was found there, in their order.

    ``why`` is ``left``, and ``candidate_top`` the arm's own token, where that is not the reference's; else ``kept`` or
    ``refused``. ``StoreError`` where nothing is known of a place.
    """
    own, refused = store.own_tokens(lane.id), store.without_future(lane.id)
    rows = []
    for row in places.to_pylist():
        place = row["window"], row["position"]
        if place in refused:
            row["why"] = "refused"
        elif place not in own:
            raise StoreError(
                f"nothing was written at position {place[1]} of window {place[0]}",
                where=str(store.generation_folder(lane.id)),
                todo="run again",
            )
        elif own[place] == row["reference_top"]:
            row["why"] = "kept"
        else:
            row |= {"why": "left", "candidate_top": own[place]}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=ROOTS)


def left(visited: pa.Table) -> pa.Table:
    """The roots of what :func:`came_of` found: where the arm left the reference."""
    rows = [row for row in visited.to_pylist() if row["why"] == "left"]
    return pa.Table.from_pylist(
        [row | {"order": order, "why": "visited"} for order, row in enumerate(rows)], schema=ROOTS
    )
