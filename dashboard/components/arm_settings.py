"""In which settings arms differ: facets, engine and build, threads, capture; what is equal is counted, not listed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.components.arm_facets import facet_words
from dashboard.components.arm_sizes import size_words
from dashboard.components.cells import table
from dashboard.components.markup import Html, tag
from drift_runs.measure.comparability import described, key_from_tags
from drift_runs.protocol.model import Settings

if TYPE_CHECKING:
    from dashboard.frame import Page
    from drift_runs.tracking.facts import RunFacts
    from drift_runs.tracking.records import ArmRecord

AS_REFERENCE = "as the reference"
"""Of an engine setting: only those that differ from the reference's are stored with an arm."""
DIGITS = 12
"""Of a digest."""


def settings_of(page: Page, arm: ArmRecord, facts: RunFacts) -> dict[str, str]:
    """Every setting of an arm by name, as it is read. The same names for every arm of a campaign."""
    declared = next((item for item in page.protocol.arms if item.name == arm.arm), None)
    said = {
        "role": arm.role,
        "reference": arm.reference or page.campaign.reference,
        "derivative": arm.derivative,
        "weights": arm.weights,
        "weights observed in the file": arm.weights_observed,
        "size of the weights": "not known" if arm.weight_bytes is None else size_words(arm.weight_bytes),
        "digest of the weights": facts.weights_sha256.get(arm.run_id, "not known")[:DIGITS],
        "digest of the adapter": facts.adapter_sha256.get(arm.run_id, "none")[:DIGITS],
        "KV": arm.kv,
        "hardware": facet_words(page, arm.hardware, "hardware"),
        "engine and build": arm.engine,
        "launches declared": "not in the protocol" if declared is None else str(declared.launches),
    }
    said |= {f"engine: {name}": value for name, value in _engine(page, arm).items()}
    capture = page.protocol.capture.model_dump(mode="json")
    said |= {f"capture: {name.replace('_', ' ')}": str(value) for name, value in capture.items()}
    said |= {f"comparability: {name}": value for name, value in described(key_from_tags(arm.key)).items()}
    return said


def _engine(page: Page, arm: ArmRecord) -> dict[str, str]:
    """Engine settings; what an arm does not store is the reference's. An import has none, but facts of its source."""
    every = {name: None for name in Settings.model_fields} if not page.campaign.imported else {}
    for other in page.campaign.arms:
        every |= dict.fromkeys(_stored(other.settings))
    own = _stored(arm.settings)
    absent = "not said" if page.campaign.imported else AS_REFERENCE
    return {name.replace("_", " "): own.get(name, absent) for name in every}


def _stored(canonical: str) -> dict[str, str]:
    try:
        found = json.loads(canonical) if canonical else {}
    except ValueError:
        return {"settings": canonical}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def differing(settings: Sequence[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """Names of settings that differ between arms, and of those that are equal, in their order."""
    names = list(settings[0])
    differ = [name for name in names if len({found[name] for found in settings}) > 1]
    return differ, [name for name in names if name not in differ]


def settings_table(
    names: Sequence[str], arms: Sequence[ArmRecord], settings: Sequence[Mapping[str, str]], *, label: str
) -> Html:
    """One row a setting, one column an arm."""
    head = [tag("th", "setting", scope="col"), *(tag("th", arm.arm, scope="col", data_arm=arm.arm) for arm in arms)]
    body = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            [
                tag("td", found[name] or "none", cls="dr-wrap dr-setting", data_arm=arm.arm)
                for arm, found in zip(arms, settings, strict=True)
            ],
            data_setting=name,
        )
        for name in names
    ]
    return table("", head, body, label=label, wide=True)


def settings_csv(
    names: Sequence[str], arms: Sequence[ArmRecord], settings: Sequence[Mapping[str, str]]
) -> list[dict[str, object]]:
    """The rows of the table."""
    return [
        {"setting": name, **{arm.arm: found[name] for arm, found in zip(arms, settings, strict=True)}} for name in names
    ]
