"""The positions of an arm that a person should read, worst first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drift_runs.measure.flips import strong_overturn_mask
from drift_runs.measure.marks import confident_mask, volatile_mask
from drift_runs.measure.positions import Positions, infinite_mask, positions_of
from drift_runs.measure.specs import BY_BASE
from drift_runs.measure.text import Texts, TokenText
from drift_runs.protocol.model import Protocol
from drift_runs.schema import LISTED, RowFlag

LISTS = ("support_collapse", "strong_overturn", "dnll", "kl")
"""In the order of the table."""
LISTED_ROWS = 50
"""After so many rows a list is cut."""
_AT_ONCE = 262_144
"""Rows that are held as arrays at a time: a comparison may have ten million."""


class _Choice(NamedTuple):
    """Rows of one list, worst first and cut, and how many the whole list has."""

    rows: pa.Table
    """Schema ``COMPARISON``."""
    positions: Positions
    """The same rows in the same order."""
    of: int


def listed_rows(comparison: pa.Table, protocol: Protocol, *, arm: str, texts: Texts | None = None) -> pa.Table:
    """The worst positions of a comparison, schema ``LISTED``; each list is cut after ``LISTED_ROWS`` rows.

    ``support_collapse``
        fewer than two shared tokens: the largest reference mass outside them first.
    ``strong_overturn``
        flips where the reference was strongly sure: the surest first.
    ``dnll``
        volatile positions: the largest |dnll| first.
    ``kl``
        divergence above zero, of the protocol's headline definition: the largest first. Before them come those where it
        is infinite (the reference gives a token some probability, the candidate none), with null as their value.

    Equal rows stand in the order of the protocol's windows, then by position; the order of the table's rows does not
    count. A value that is not known is null, and puts a position on no list. ``texts``: without them ids stand alone;
    so it is in a window that is not among their streams.
    """
    windows = _ordered_windows(comparison, protocol)
    starts = range(0, comparison.num_rows, _AT_ONCE)
    parts = [_choices(comparison.slice(start, _AT_ONCE), protocol, windows) for start in starts]
    tables = []
    for name in LISTS:
        found = [part[name] for part in parts if part[name].of]
        if not found:
            continue
        best = found[0]
        if len(found) > 1:
            rows = pa.concat_tables([choice.rows for choice in found]).unify_dictionaries().combine_chunks()
            best = _choices(rows, protocol, windows)[name]
        tables.append(_described(best._replace(of=sum(choice.of for choice in found)), protocol, arm, name, texts))
    return pa.concat_tables(tables) if tables else LISTED.empty_table()


def _ordered_windows(comparison: pa.Table, protocol: Protocol) -> tuple[str, ...]:
    """The protocol's windows in its order, then others by name."""
    names = [window.name for window in protocol.windows]
    found = {str(name) for name in pc.unique(comparison["window"].cast(pa.string())).to_pylist()}
    return (*names, *sorted(found.difference(names)))


def _choices(table: pa.Table, protocol: Protocol, windows: tuple[str, ...]) -> dict[str, _Choice]:
    """The first rows of every list among the rows of a table."""
    window = pc.index_in(table["window"].cast(pa.string()), value_set=pa.array(windows, pa.string())).to_numpy()
    table = table.take(pa.array(np.lexsort((table["position"].to_numpy(), window))))
    positions = positions_of(table, windows=windows)
    divergence = positions.divergence_nats(protocol.capture.divergence)
    infinite = infinite_mask(positions, BY_BASE[protocol.capture.divergence].column)
    collapsed = (positions.flags & RowFlag.SUPPORT_COLLAPSE) != 0
    lists: dict[str, tuple[NDArray[np.bool_], NDArray[np.float64]]] = {
        "support_collapse": (collapsed, np.nan_to_num(positions.reference_mass_outside, nan=-1.0)),
        "strong_overturn": (strong_overturn_mask(positions, protocol.bands), positions.reference_p1),
        "dnll": (volatile_mask(positions, protocol.marks), np.abs(positions.dnll_nats)),
        "kl": (infinite | (divergence > 0), np.where(infinite, np.inf, divergence)),
    }
    choices = {}
    for name, (listed, worst) in lists.items():
        at = np.flatnonzero(listed)
        # Stable: rows that are equally bad stay in the order of windows and positions.
        first = at[np.argsort(-worst[at], kind="stable")][:LISTED_ROWS]
        choices[name] = _Choice(table.take(pa.array(first)), positions.take(first), len(at))
    return choices


def _described(choice: _Choice, protocol: Protocol, arm: str, name: str, texts: Texts | None) -> pa.Table:
    """The rows of one list with everything that a reader wants beside them."""
    rows, positions, of = choice
    count = len(positions)
    windows = [positions.windows[at] for at in positions.window]
    places = list(zip(windows, positions.position.tolist(), strict=True))
    definition = BY_BASE[protocol.capture.divergence]
    top_k = protocol.capture.top_k if positions.top_k is None else positions.top_k
    ids = {column: _ids(rows[column]) for column in ("token", "reference_top", "candidate_top")}
    known = np.isfinite(positions.reference_nll_nats) | np.isfinite(positions.candidate_nll_nats)
    columns: dict[str, Sequence[object] | pa.Array] = {
        "arm": [arm] * count,
        "list": [name] * count,
        "place": range(1, count + 1),
        "window": windows,
        "position": positions.position,
        "role": rows["role"].cast(pa.string()).to_pylist(),
        "range": [_range_of(protocol, window, position) for window, position in places],
        "outlier": [window in protocol.outlier_windows for window in windows],
        **ids,
        "token_text": _texts_of(texts, ids["token"]),
        "reference_text": _texts_of(texts, ids["reference_top"]),
        "candidate_text": _texts_of(texts, ids["candidate_top"]),
        "reference_p1": _nullable(positions.reference_p1),
        "candidate_p1": _nullable(positions.candidate_p1),
        "q_of_reference_top": _nullable(rows["q_of_reference_top"].to_numpy(zero_copy_only=False)),
        "p_of_candidate_top": _nullable(rows["p_of_candidate_top"].to_numpy(zero_copy_only=False)),
        "spec": [definition.spec(top_k)] * count,
        "divergence_nats": _nullable(getattr(positions, definition.column)),
        "dnll_nats": _nullable(positions.dnll_nats),
        "flip": rows["flip"].to_pylist(),
        "confident": pa.array(confident_mask(positions, protocol.marks), mask=~known),
        "copy": rows["copy"].to_pylist(),
        "literal": rows["literal"].to_pylist(),
        "before": [_passage(texts, TokenText.before, window, position) for window, position in places],
        "after": [_passage(texts, TokenText.after, window, position) for window, position in places],
        "of": [of] * count,
    }
    return pa.table({field.name: pa.array(columns[field.name], type=field.type) for field in LISTED}, schema=LISTED)


def _nullable(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=~np.isfinite(values))


def _ids(column: pa.ChunkedArray) -> list[int | None]:
    """Token ids; null where there is none, for which unusable rows hold -1."""
    return [token if token is not None and token >= 0 else None for token in column.to_pylist()]


def _texts_of(texts: Texts | None, ids: Sequence[int | None]) -> list[str | None]:
    return [None if texts is None or token is None else texts.tokens.text(token) for token in ids]


def _passage(
    texts: Texts | None, read: Callable[[TokenText, Sequence[int], int], str], window: str, position: int
) -> str | None:
    stream = None if texts is None else texts.streams.get(window)
    if texts is None or stream is None or position >= len(stream):
        return None
    return read(texts.tokens, stream, position)


def _range_of(protocol: Protocol, window: str, position: int) -> str:
    """The first range of the protocol that the position lies in; empty when there is none."""
    for span in protocol.ranges:
        if span.window == window and span.start <= position < span.end:
            return span.name
    return ""
