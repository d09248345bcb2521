"""Which arms of a campaign may be ranked with one another, and why the others may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drift_runs.measure.comparability import compare_keys, key_from_tags, ranked_groups
from drift_runs.tracking.records import ArmRecord


class Ranking(NamedTuple):
    """Which arms may be ranked together."""

    ranked: frozenset[str]
    reasons: Mapping[str, tuple[str, ...]]
    """Why each other arm may not stand among them."""
    against: tuple[str, ...]
    """The arms that the reasons refer to."""


def ranking_of(arms: Sequence[ArmRecord]) -> Ranking:
    """The largest group of comparable arms; of two as large the one with the campaign's own reference."""
    ordered = sorted(arms, key=lambda arm: bool(arm.reference))
    keys = {arm.arm: key_from_tags(arm.key) for arm in ordered}
    groups = ranked_groups(keys)
    if not groups:
        return Ranking(frozenset(), {}, ())
    first = keys[groups[0].arms[0]]
    # A key of which something is not known is not even equal to itself.
    unknown = compare_keys(first, first).reasons
    reasons = {name: why for group in groups[1:] for name, why in group.reasons.items()}
    if unknown:
        reasons |= {name: unknown for name in groups[0].arms}
    return Ranking(frozenset(keys) - frozenset(reasons), reasons, groups[0].arms)
