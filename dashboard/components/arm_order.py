"""The order of arms that every page shares: by name, by the protocol, or by a figure; and the groups they stand in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dashboard import state
from dashboard.components.arm_facets import facet_words
from dashboard.figures import sort_key
from dashboard.frame import BESIDE_ROLES, FACET_LABELS, control

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

ORDER_LABELS = {"desc": "largest first", "asc": "smallest first"}


class Group(NamedTuple):
    """Arms that share a value of the facet by which arms are grouped."""

    words: str
    """Empty where arms are not grouped."""
    value: str
    arms: list[ArmRecord]


def order_controls(page: Page) -> None:
    """What arms are sorted by, and in which direction. The protocol's own order has one direction."""
    labels = {"arm": "arm", "protocol": "order in the protocol"}
    labels |= {column.key: column.label for column in page.columns.overview}
    sort = page.view.sort if page.view.sort in labels else page.columns.first.key
    page.row.selectbox("Sort by", list(labels), format_func=labels.__getitem__, width=215, **control("sort", sort))
    page.row.segmented_control(
        "Order",
        state.ORDERS,
        format_func=ORDER_LABELS.__getitem__,
        required=True,
        disabled=sort == "protocol",
        **control("order", page.view.order),
    )


def group_control(page: Page) -> None:
    """By which facet arms are grouped: those that tell arms apart, and the one that the address names."""
    arms = [arm for arm in page.campaign.arms if arm.role not in BESIDE_ROLES]
    choices = ["none"]
    choices += [
        facet
        for facet in state.FACETS
        if facet == page.view.group or len({getattr(arm, facet) for arm in arms if arm.complete}) > 1
    ]
    page.row.selectbox(
        "Group by",
        choices,
        format_func=lambda facet: FACET_LABELS.get(facet, "no facet"),
        width=140,
        **control("group", page.view.group),
    )


def grouped(page: Page, arms: list[ArmRecord]) -> list[Group]:
    """Arms by the view's facet, groups in the order of their first arm, arms in the order that they came in."""
    facet = page.view.group
    if facet == "none":
        return [Group("", "", arms)]
    found: dict[str, list[ArmRecord]] = {}
    for arm in arms:
        found.setdefault(getattr(arm, facet), []).append(arm)
    return [
        Group(f"{FACET_LABELS[facet]} {facet_words(page, value, facet) or 'not said'}", value, members)
        for value, members in found.items()
    ]


def ordered(page: Page, arms: list[ArmRecord]) -> list[ArmRecord]:
    """Arms by the view's sort column, withheld figures last in either direction, ties by name.

    Arms that may not be ranked with the others stand after them, by name.
    """
    arms = sorted(arms, key=lambda arm: arm.arm)
    ranked = page.ranking().ranked
    apart = [arm for arm in arms if arm.arm not in ranked]
    return _sorted(page, [arm for arm in arms if arm.arm in ranked]) + apart


def _sorted(page: Page, arms: list[ArmRecord]) -> list[ArmRecord]:
    if page.view.sort == "arm":
        return arms[::-1] if page.view.order == "desc" else arms
    if page.view.sort == "protocol":
        # An author writes a ladder of derivatives or weights in the order of its steps. Follow-ups are not in it.
        place = {arm.name: at for at, arm in enumerate(page.protocol.arms)}
        return sorted(arms, key=lambda arm: place.get(arm.arm, len(place)))
    column = page.columns.by_key(page.view.sort)
    keys = {arm.arm: sort_key(page.figure(arm.arm, column, page.sets[0])) for arm in arms}
    present = [arm for arm in arms if not keys[arm.arm][0]]
    absent = [arm for arm in arms if keys[arm.arm][0]]
    return sorted(present, key=lambda arm: keys[arm.arm][1], reverse=page.view.order == "desc") + absent
