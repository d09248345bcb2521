"""Tails as lines: from the stored distributions to a table of steps, and what is seen in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dashboard import data
from dashboard.figures import Column, is_withheld, split_scope, write_value
from drift_runs.measure.distribution import exceedance

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

STEPS = pa.schema(
    [
        ("arm", pa.string()),
        ("group", pa.string()),
        ("nats", pa.float64()),
        ("count", pa.int64()),
        ("n", pa.int64()),
    ]
)


class Tails(NamedTuple):
    """The distributions of some arms over the chosen positions, under one choice of outliers."""

    steps: pa.Table
    """What is drawn: arms in order, steps ascending."""
    bins: list[dict[str, Any]]
    """The stored rows, for a CSV."""
    without: list[str]
    """Arms whose run stored no distribution."""
    silent: dict[str, str]
    """Arm to why it has no line although its distribution is there."""


def read_tails(page: Page, arms: list[ArmRecord], outliers: str) -> Tails:
    """Read the small stored tables; no positions."""
    kind, scope = split_scope(page.view.scope)
    steps: list[dict[str, Any]] = []
    bins: list[dict[str, Any]] = []
    without, silent = [], {}
    for arm in arms:
        table = data.distribution(page.uri, arm.run_id, arm.complete)
        if not table.num_rows:
            without.append(arm.arm)
            continue
        here = pc.and_(pc.equal(table["scope_kind"], kind), pc.equal(table["scope"], scope))
        rows = table.filter(pc.and_(here, pc.equal(table["outliers"], outliers))).to_pylist()
        bins += rows
        found = exceedance(rows)
        if not rows:
            silent[arm.arm] = "no position lies here"
        elif not found.n:
            silent[arm.arm] = "no position has a finite value"
        elif not len(found.at_nats):
            silent[arm.arm] = f"all {found.n:,} positions are 0"
        group = "floor" if arm.role == "floor" else "arm"
        steps += [
            {"arm": arm.arm, "group": group, "nats": float(at), "count": int(count), "n": found.n}
            for at, count in zip(found.at_nats, found.count, strict=True)
        ]
    return Tails(pa.Table.from_pylist(steps, schema=STEPS), bins, without, silent)


def tail_words(page: Page, arms: list[ArmRecord], columns: tuple[Column, ...], outliers: str) -> list[str]:
    """Who has the longest tail by the highest quantile that is known of most arms, and whose total it makes up."""
    said = []
    for column in columns:
        known = {
            arm.arm: figure
            for arm in arms
            if (figure := page.figure(arm.arm, column, outliers)) is not None and not is_withheld(figure)
        }
        if not known or 2 * len(known) < len(arms):
            continue
        order = sorted(known, key=lambda name: known[name].value or 0.0)
        most, least = order[-1], order[0]
        words = f"{_one_in(column.statistic)} of {most} lies at {write_value(known[most], 'nats')} nats or more"
        if most != least:
            words += f"; of {least}, the least, at {write_value(known[least], 'nats')} nats"
        left = len(arms) - len(known)
        rest = f" ({left} of {len(arms)} arms withheld)" if left else ""
        said.append(f"{words}{rest}.")
        break
    share = Column(key="tail", header="", spec=page.columns.headline, statistic="tail_share", unit="share")
    shares = {
        arm.arm: figure
        for arm in arms
        if (figure := page.figure(arm.arm, share, outliers)) is not None and not is_withheld(figure)
    }
    if shares:
        order = sorted(shares, key=lambda name: shares[name].value or 0.0)
        words = f"The highest 5 % of the positions hold {write_value(shares[order[-1]], 'share')} of all divergence"
        words += f" in {order[-1]}"
        if len(order) > 1:
            words += f" and {write_value(shares[order[0]], 'share')} in {order[0]}"
        said.append(f"{words}.")
    return said


def _one_in(statistic: str) -> str:
    return {
        "p99.9": "One position in a thousand",
        "p99": "One position in a hundred",
        "p95": "One position in twenty",
    }[statistic]
