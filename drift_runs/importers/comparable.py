"""Whether two imported files may be set against each other, from what they say themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from drift_runs.importers.base import ImportedFile, ImportedWindow
from drift_runs.importers.formats import load

SHOWN_NAMES = 3


def reasons_between(a: ImportedFile, b: ImportedFile) -> tuple[str, ...]:
    """Why ``a`` and ``b`` must not be compared, one sentence part a reason; empty when they may be.

    Same format, K, convention, cluster unit, windows, positions, tokens and digests of tokens, and equal facts where
    the format says that they must be (``EQUAL_FACTS``). A fact that only one file states is no reason: see
    :func:`differences_between`.
    """
    if a.format != b.format:
        return (f"another format ({a.format} and {b.format})",)
    return tuple(_reasons(a, b))


def differences_between(a: ImportedFile, b: ImportedFile) -> tuple[str, ...]:
    """Facts that differ and may: arm, pass, server. One sentence part each."""
    equal = set(_equal_facts(a))
    names = dict.fromkeys([*a.facts, *b.facts])
    return tuple(
        f"{name}: {a.facts.get(name) or 'not said'} and {b.facts.get(name) or 'not said'}"
        for name in names
        if a.facts.get(name, "") != b.facts.get(name, "")
        and not (name in equal and a.facts.get(name) and b.facts.get(name))
    )


def _equal_facts(file: ImportedFile) -> tuple[str, ...]:
    return getattr(load(file.format), "EQUAL_FACTS", ())


def _reasons(a: ImportedFile, b: ImportedFile) -> Iterator[str]:
    if a.top_k != b.top_k:
        yield f"another number of entries a row (K = {a.top_k or 'all'} and {b.top_k or 'all'})"
    if a.convention != b.convention:
        yield f"positions are counted otherwise ({a.convention!r} and {b.convention!r})"
    if a.cluster != b.cluster:
        yield f"another unit of clusters ({a.cluster} and {b.cluster})"
    for name in _equal_facts(a):
        one, other = a.facts.get(name, ""), b.facts.get(name, "")
        if one and other and one != other:
            yield f"another {name} ({_short(one)} and {_short(other)})"
    match a.kind:
        case "rows" | "comparison":
            yield from _window_reasons(a.windows, b.windows)
            yield from _position_reasons(a.table, b.table)
        case "contexts":
            yield from _window_reasons(a.windows, b.windows)
            yield from _context_reasons(a.table, b.table)
        case "rollouts":
            yield from _prompt_reasons(a.table, b.table)


def _window_reasons(ours: tuple[ImportedWindow, ...], theirs: tuple[ImportedWindow, ...]) -> Iterator[str]:
    left = {window.name: window for window in ours}
    right = {window.name: window for window in theirs}
    yield from _missing("window", left, right)
    both = [name for name in left if name in right]
    for field, words in (
        ("document", "of another document"),
        ("group", "in another group"),
        ("role", "of another role"),
    ):
        unequal = [name for name in both if getattr(left[name], field) != getattr(right[name], field)]
        if unequal:
            yield f"{_count(unequal, 'window')} {words} ({_names(unequal)})"
    hashed = [name for name in both if left[name].tokens_sha256 and right[name].tokens_sha256]
    unequal = [name for name in hashed if left[name].tokens_sha256 != right[name].tokens_sha256]
    if unequal:
        yield f"{_count(unequal, 'window')} of other tokens, by their digest ({_names(unequal)})"


def _position_reasons(left: pa.Table, right: pa.Table) -> Iterator[str]:
    ours, theirs = _by_position(left), _by_position(right)
    only_left, only_right = ours.keys() - theirs.keys(), theirs.keys() - ours.keys()
    if only_left or only_right:
        first = min(only_left | only_right)
        yield (
            f"another set of positions ({len(only_left):,} only in the first file and {len(only_right):,} only in the "
            f"second, for instance {first[1]} of {first[0]!r})"
        )
    unequal = [
        key
        for key, token in ours.items()
        if key in theirs and token is not None and theirs[key] is not None and token != theirs[key]
    ]
    if unequal:
        window, position = unequal[0]
        yield (
            f"{_count(unequal, 'position')} with another actual token (position {position} of {window!r}: "
            f"{ours[unequal[0]]} and {theirs[unequal[0]]})"
        )


def _by_position(table: pa.Table) -> dict[tuple[str, int], int | None]:
    windows = table["window"].cast(pa.string()).to_pylist()
    return dict(zip(zip(windows, table["position"].to_pylist(), strict=True), table["token"].to_pylist(), strict=True))


def _context_reasons(left: pa.Table, right: pa.Table) -> Iterator[str]:
    ours = dict(zip(left["context"].to_pylist(), left["positions"].to_pylist(), strict=True))
    theirs = dict(zip(right["context"].to_pylist(), right["positions"].to_pylist(), strict=True))
    unequal = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    if unequal:
        yield f"{_count(unequal, 'context')} with another number of positions ({_names(unequal)})"


def _prompt_reasons(left: pa.Table, right: pa.Table) -> Iterator[str]:
    runs = np.intersect1d(left["run"].to_numpy(), right["run"].to_numpy())
    if not len(runs):
        yield "no run that both have"
    yield from _missing("prompt", dict.fromkeys(left["prompt"].to_pylist()), dict.fromkeys(right["prompt"].to_pylist()))


def _missing(noun: str, left: Iterable[str], right: Iterable[str]) -> Iterator[str]:
    ours, theirs = list(left), list(right)
    for side, here, there in (("first", ours, set(theirs)), ("second", theirs, set(ours))):
        alone = [name for name in here if name not in there]
        if alone:
            yield f"{_count(alone, noun)} only in the {side} file ({_names(alone)})"


def _count(items: list, noun: str) -> str:
    return f"1 {noun}" if len(items) == 1 else f"{len(items):,} {noun}s"


def _names(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(repr(name[:60]) for name in names[:SHOWN_NAMES]) + more


def _short(value: str) -> str:
    return value[:12] if len(value) >= 40 and " " not in value else value
