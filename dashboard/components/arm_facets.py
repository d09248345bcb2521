"""How facets read: their names, and what tells a campaign's arms apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard import data
from dashboard.frame import BESIDE_ROLES
from drift_runs.report.hardware import hardware_words
from drift_runs.report.identity import settings_text

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.records import ArmRecord

FACET_HEADERS = {
    "derivative": "derivative",
    "weights": "weights",
    "kv": "KV",
    "engine": "engine",
    "settings": "settings",
    "hardware": "hardware",
}
NOT_SAID = "not-said"
"""What an import writes for a facet that its source does not name."""


def facet_value(arm: ArmRecord, facet: str) -> str:
    """An arm's value of a facet, settings in words."""
    return settings_text(arm.settings) if facet == "settings" else getattr(arm, facet)


def facet_words(page: Page, value: str, facet: str) -> str:
    """A value as a table shows it."""
    if facet != "hardware":
        return value
    return hardware_words(arm.hardware for arm in page.campaign.arms).get(value, value)


def varying_facets(page: Page) -> list[str]:
    """Facets that tell the campaign's arms, the reference among them, apart."""
    arms = [arm for arm in page.campaign.arms if arm.role not in BESIDE_ROLES]
    return [
        facet
        for facet in _facets(page)
        if len({facet_value(arm, facet) for arm in arms} | _known_of_reference(page, facet)) > 1
    ]


def common_facets(page: Page) -> str:
    """The facets that every arm shares, in words; empty when there are none."""
    varying = varying_facets(page)
    shared = [
        f"{FACET_HEADERS[facet]} {facet_words(page, of_reference(page, facet), facet)}"
        for facet in _facets(page)
        if facet not in varying and of_reference(page, facet) not in ("", NOT_SAID)
    ]
    return f"The same for every arm: {', '.join(shared)}." if shared else ""


def own_facets(page: Page) -> str:
    """What an arm's facets are read against: those of the reference that not every arm shares; empty without any."""
    values = [(facet, facet_words(page, of_reference(page, facet), facet)) for facet in varying_facets(page)]
    said = [f"{FACET_HEADERS[facet]} {value}" for facet, value in values if value not in ("", NOT_SAID)]
    if not said:
        return ""
    return f"Below an arm's name stands what is not as in the reference ({', '.join(said)})."


def of_reference(page: Page, facet: str) -> str:
    """The reference's own value; empty where it is not known.

    Its engine and hardware are the observed ones, which a floor of it has as well. Where another run took it, a floor
    of that name is one of this machine, and what its engine and hardware were is that run's to say.
    """
    if facet == "settings":
        return ""
    if facet in ("engine", "hardware") and page.campaign.reference_run:
        return _observed_elsewhere(page, facet)
    if facet in ("engine", "hardware"):
        floors = {floor.name for floor in page.protocol.floors if floor.arm == page.campaign.reference}
        observed = next((getattr(arm, facet) for arm in page.campaign.arms if arm.arm in floors), "")
        return observed or getattr(page.protocol.reference, facet)
    return str(getattr(page.protocol.reference, facet))


def _known_of_reference(page: Page, facet: str) -> set[str]:
    value = of_reference(page, facet)
    # Of its hardware nothing may be known, where no floor was run: that is no other hardware.
    return set() if facet in ("engine", "hardware") and not value else {value}


def _observed_elsewhere(page: Page, facet: str) -> str:
    """As a floor of the reference has it in the campaign that took it; empty where that is not known here."""
    taken = data.index(page.uri).campaign(page.campaign.reference_run)
    if taken is None:
        return ""
    return next((getattr(arm, facet) for arm in taken.arms if arm.role == "floor" and not arm.reference), "")


def _facets(page: Page) -> list[str]:
    """An imported file's settings and engine are what it says of itself, and never a facet of ours."""
    return [facet for facet in FACET_HEADERS if not (page.campaign.imported and facet in ("settings", "engine"))]
