"""Roots: the flips from which futures are followed, by the rule of the protocol. METRICS, Generation.

The draw is coordinated: every place has its number by ``seeds.roots`` alone, and the smallest numbers are drawn. So
arms that flip at the same place are followed from it together, and their futures can be compared root by root; the
reference writes its own once for all of them. Another range, another arm or a larger cap changes no draw that was there
before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drift_runs.measure.flips import BANDS, band_index
from drift_runs.protocol.model import Floor, Protocol
from drift_runs.schema import ROOTS

STRONG = "strong"
DRAWN = "drawn"
EVERY = "every"
FLOOR = "floor"
VISITED = "visited"

Root = dict[str, Any]
"""One row of table ``ROOTS``."""

_READ = ("window", "position", "flip", "reference_top", "candidate_top", "reference_p1", "candidate_p1", "literal")


class Existing(NamedTuple):
    """What roots there are, explored or not."""

    flips: int
    strong: int
    roots: pa.Table
    """Schema ``ROOTS``: all of them, so that they can be counted in any scope."""


def every_root(comparison: pa.Table, protocol: Protocol, *, arm: str) -> pa.Table:
    """Every flip of one comparison that has a future: schema ``ROOTS``, in the protocol's order, none left out.

    ``comparison``: schema ``COMPARISON``, all windows of one arm. A flip is METRICS' ``flip``: the best tokens differ,
    the lowest id winning a tie. Positions that were not comparable (no flip is known, an unusable row has no best
    token) and windows that the protocol does not have are no roots. ``why`` is ``strong`` for a flip where the
    reference gave its token at least ``bands.strong_from``, else ``every``.
    """
    flips = comparison.select(_READ).filter(pc.fill_null(comparison["flip"], False))
    known = pc.and_(pc.greater_equal(flips["reference_top"], 0), pc.greater_equal(flips["candidate_top"], 0))
    flips = flips.filter(pc.fill_null(pc.and_(known, flips["reference_p1"].is_valid()), False))
    windows = {window.name: at for at, window in enumerate(protocol.windows)}
    found = [row for row in flips.to_pylist() if row["window"] in windows]
    found.sort(key=lambda row: (windows[row["window"]], row["position"]))
    p1 = np.array([row["reference_p1"] for row in found], dtype=np.float64)
    strong = band_index(p1, protocol.bands) == BANDS.index("strong")
    places = _Places(protocol)
    rows = [
        places.described(row) | {"arm": arm, "order": order, "why": STRONG if is_strong else EVERY}
        for order, (row, is_strong) in enumerate(zip(found, strong, strict=True))
    ]
    return pa.Table.from_pylist(rows, schema=ROOTS)


def existing(roots: pa.Table) -> Existing:
    """What there is in a table of :func:`every_root`."""
    return Existing(roots.num_rows, roots["why"].to_pylist().count(STRONG), roots)


def select_roots(comparison: pa.Table, protocol: Protocol, *, arm: str) -> pa.Table:
    """The roots of one arm or floor that the protocol explores: schema ``ROOTS``, in the order of exploration.

    ``every-flip``: all of :func:`every_root`. ``strong-first``: all strong overturns, and of the other flips up to
    ``branches.per_range`` in each range, drawn; those outside every range are one pool. Never more than
    ``branches.cap``.

    Strong overturns come first, then the others, both in the order in which they were drawn. Of both it is one of each
    range in turn, so that the first few, which are all that a bounded run follows, already spread over the ranges. A
    protocol without ``branches`` explores none.
    """
    branches = protocol.branches
    if branches is None:
        return ROOTS.empty_table()
    names = (*(span.name for span in protocol.ranges), "")
    strong: dict[str, list[Root]] = {name: [] for name in names}
    pools: dict[str, list[Root]] = {name: [] for name in names}
    for row in every_root(comparison, protocol, arm=arm).to_pylist():
        (strong if row["why"] == STRONG else pools)[row["range"]].append(row)
    limit = branches.per_range if branches.roots == "strong-first" else None
    drawn = [_drawn(pool, protocol)[:limit] for pool in pools.values()]
    why = DRAWN if branches.roots == "strong-first" else EVERY
    others = [row | {"why": why} for row in _in_turn(drawn)]
    first = _in_turn([_drawn(pool, protocol) for pool in strong.values()])
    return _table([*first, *others][: branches.cap])


def null_roots(roots: pa.Table | Sequence[pa.Table], protocol: Protocol, floor: Floor) -> pa.Table:
    """Where a floor is followed: schema ``ROOTS``, its own flips first, then where candidates were explored.

    ``roots``: tables ``ROOTS`` of :func:`select_roots`, of the floor itself (rows whose arm is its name) and of the
    arms that it is the null of: every candidate for a floor of the reference, else the floor's own arm. Give the
    explored ones only. Each of their places counts once, and of those that the floor covers as many are drawn as fill
    ``branches.cap``. There the engine is set against itself from one token on, the one that its arm prefers:
    ``candidate_top`` is ``reference_top``, and ``why`` is ``floor``. The order of the drawn is that of the draw.
    """
    branches = protocol.branches
    if branches is None:
        return ROOTS.empty_table()
    tables = [roots] if isinstance(roots, pa.Table) else list(roots)
    rows = list(chain.from_iterable(table.to_pylist() for table in tables))
    rows = [row for row in rows if not floor.windows or row["window"] in floor.windows]
    own = sorted((row for row in rows if row["arm"] == floor.name), key=lambda row: row["order"])
    taken = {_place(row) for row in own}
    others = {item.name for item in protocol.floors}
    pool: dict[tuple[str, int], Root] = {}
    for row in rows:
        if row["arm"] in others or _place(row) in taken:
            continue
        if floor.arm == protocol.reference.name:
            top, p1 = row["reference_top"], row["reference_p1"]
        elif row["arm"] == floor.arm:
            top, p1 = row["candidate_top"], row["candidate_p1"]
        else:
            continue
        if p1 is not None:
            # What the engine's other execution gave that token is not known without its rows.
            changed = {"arm": floor.name, "why": FLOOR, "reference_top": top, "candidate_top": top}
            pool.setdefault(_place(row), row | changed | {"reference_p1": p1, "candidate_p1": None})
    windows = {window.name: at for at, window in enumerate(protocol.windows)}
    ordered = sorted(pool.values(), key=lambda row: (windows[row["window"]], row["position"]))
    return _table([*own, *_drawn(ordered, protocol)][: branches.cap])


def visited_places(
    roots: Sequence[pa.Table], protocol: Protocol, *, arm: str, comparison: pa.Table | None = None
) -> pa.Table:
    """Where an arm without rows is followed, because nobody sees its flips: schema ``ROOTS``, in the draw's order.

    ``roots``: tables ``ROOTS`` of the arms with the same reference that are followed; each of their places counts once.
    Where there is none, the places where the reference gave its best token less than ``bands.uncertain_below``, which
    ``comparison`` says (schema ``COMPARISON``, any with that reference): up to ``branches.per_range`` in each range are
    drawn. Never more than ``branches.cap``. ``candidate_top`` is ``reference_top``, because the arm's own token is not
    known, and ``why`` is ``visited``.
    """
    branches = protocol.branches
    if branches is None:
        return ROOTS.empty_table()
    seen: dict[tuple[str, int], Root] = {}
    for row in chain.from_iterable(table.to_pylist() for table in roots):
        seen.setdefault(_place(row), row)
    if seen or comparison is None:
        chosen = _drawn(list(seen.values()), protocol)
    else:
        chosen = _uncertain(comparison, protocol)
    changed = {"arm": arm, "why": VISITED, "candidate_p1": None}
    return _table([row | changed | {"candidate_top": row["reference_top"]} for row in chosen][: branches.cap])


def _uncertain(comparison: pa.Table, protocol: Protocol) -> list[Root]:
    """Places where the reference is uncertain, some of each range in turn."""
    known = comparison.select(_READ).filter(
        pc.fill_null(pc.less(comparison["reference_p1"], protocol.bands.uncertain_below), False)
    )
    known = known.filter(pc.fill_null(pc.greater_equal(known["reference_top"], 0), False))
    places = _Places(protocol)
    pools: dict[str, list[Root]] = {name: [] for name in (*(span.name for span in protocol.ranges), "")}
    for row in known.to_pylist():
        if row["window"] in places.windows:
            described = places.described(row)
            pools[described["range"]].append(described)
    return _in_turn([_drawn(pool, protocol)[: protocol.branches.per_range] for pool in pools.values()])


class _Places:
    """What a protocol says of a place: looked up once a root, and roots may be many."""

    def __init__(self, protocol: Protocol) -> None:
        self.windows = {window.name: window for window in protocol.windows}
        self.outliers = protocol.outlier_windows
        self.ranges: dict[str, list[Any]] = {}
        for span in protocol.ranges:
            self.ranges.setdefault(span.window, []).append(span)

    def described(self, row: Root) -> Root:
        """The columns of a root that its comparison and the protocol give."""
        window, position = self.windows[row["window"]], row["position"]
        spans = self.ranges.get(window.name, ())
        inside = next((span for span in spans if span.start <= position < span.end), None)
        kept = {name: value for name, value in row.items() if name != "flip"}
        return kept | {
            "document": window.document,
            "panel": window.panel,
            "range": inside.name if inside else "",
            "kind": inside.kind if inside else "",
            "outlier": window.name in self.outliers,
        }


def _place(row: Root) -> tuple[str, int]:
    return row["window"], row["position"]


def _drawn(pool: Sequence[Root], protocol: Protocol) -> list[Root]:
    """A permutation of the pool: any first part of it is a sample without replacement, and a longer part holds it.

    Coordinated sampling by permanent random numbers (Brewer, Early and Joyce, 1972): the number is the place's own.
    """

    def number(row: Root) -> bytes:
        return hashlib.sha256(f"{protocol.seeds.roots}\0{row['window']}\0{row['position']}".encode()).digest()

    return sorted(pool, key=number)


def _in_turn(pools: Iterable[Sequence[Root]]) -> list[Root]:
    """One of each pool, then the second of each, and so on."""
    return [row for rows in zip_longest(*pools) for row in rows if row is not None]


def _table(rows: Iterable[Root]) -> pa.Table:
    return pa.Table.from_pylist([row | {"order": order} for order, row in enumerate(rows)], schema=ROOTS)
